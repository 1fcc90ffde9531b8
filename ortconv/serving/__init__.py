"""Model repositories for inference servers."""
