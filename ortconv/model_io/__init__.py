"""Reads, checks and writes ONNX files."""
