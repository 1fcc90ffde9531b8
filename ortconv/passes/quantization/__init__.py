"""Rewrites of quantized layers."""
