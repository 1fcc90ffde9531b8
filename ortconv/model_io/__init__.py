"""Reading, checking and writing ONNX files."""
