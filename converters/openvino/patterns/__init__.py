"""Groups of nodes that exporters write for one operation."""
