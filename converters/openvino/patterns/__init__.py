"""Groups of nodes that exporters write for one operation. Lowerings in `ops` call them; they import no lowering."""
