"""The page of ``ortconv report``: the network before and after, what `verify` measured, times of nodes, sizes."""
