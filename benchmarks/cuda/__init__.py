"""Speed of transposed convolutions on an NVIDIA GPU: ours, ONNX Runtime's own and torch's, interleaved.

``python -m benchmarks.cuda --help``, from the top of the source tree, on a machine with onnxruntime-gpu and torch.
"""
