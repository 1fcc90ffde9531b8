"""Helpers shared by several lowerings of oneDNN ops."""
