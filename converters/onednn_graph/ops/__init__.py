"""The lowerings of oneDNN ops, by subject; importing a module registers what it holds."""
