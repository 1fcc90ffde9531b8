"""What several lowerings of oneDNN ops share."""
