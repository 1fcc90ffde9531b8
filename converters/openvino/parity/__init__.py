"""Bit-for-bit copies of unspecified behavior of OpenVINO's CPU plugin: ties, orders, random numbers."""
