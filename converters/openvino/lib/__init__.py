"""What several lowerings of OpenVINO ops share."""
