"""Convolutions in ONNX, for the converters of both source formats."""
