"""Reading OpenVINO IR."""
