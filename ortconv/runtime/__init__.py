"""Runs models in ONNX Runtime: the native library, sessions, and Python ops."""
