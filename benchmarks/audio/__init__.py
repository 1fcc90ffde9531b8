"""Audio in ONNX Runtime, as it is and after `ortconv.optimize` with the plugin: Fourier transforms and networks.

Run ``python -m benchmarks.audio``; it needs SciPy, and matplotlib for ``--plot``.
"""
