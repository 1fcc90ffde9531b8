"""NumPy references of the operators of ``org.ortconv``."""
