"""What a source format supplies: a reader that makes a `SourceGraph`, and a registry of lowerings."""
