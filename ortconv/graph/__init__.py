"""Emitting and editing ONNX graphs: the builder of lowerings, constant folding, shapes, matching and editing."""
