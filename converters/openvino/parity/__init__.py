"""Copies, bit for bit, of what OpenVINO's CPU plugin computes where no specification says how."""
