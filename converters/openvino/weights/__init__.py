"""Weights of OpenVINO models: quantized, codebook and weight-only quantized constants, and what consumes them."""
