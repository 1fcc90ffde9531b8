"""The operators of ``org.ortconv``, one file each."""
