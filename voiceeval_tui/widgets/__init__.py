"""The console's panes, one a file, and the lines above and below them."""
