"""Command line and console of the voice-agent evaluation engine."""
