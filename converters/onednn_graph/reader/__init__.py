"""Reading oneDNN Graph JSON."""
