"""The domain ``org.ortconv``: its operators with their schemas, function bodies and NumPy references."""
