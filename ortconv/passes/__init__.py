"""Rewrites of a whole lowered graph."""
