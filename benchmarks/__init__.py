"""Speed of transposed convolutions: ours, ONNX Runtime's own, OpenVINO's and torch's, interleaved on one machine.

``python -m benchmarks --help``, from the top of the source tree.
"""
