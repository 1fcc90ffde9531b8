"""What the converters of both formats share about convolutions."""
