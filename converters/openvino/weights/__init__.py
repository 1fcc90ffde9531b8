"""Constant and compressed weights of OpenVINO models."""
