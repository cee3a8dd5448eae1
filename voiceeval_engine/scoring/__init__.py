"""From evidence to signals and a verdict. Plain values in, plain values out."""
