"""The function bodies of the convolution operators."""
