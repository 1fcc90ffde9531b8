"""Code shared by several lowerings of OpenVINO ops."""
