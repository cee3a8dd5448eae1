"""Runs voice-agent evaluations: bridge, measure, score, record. Knows no screen."""

__version__ = "0.1.0"
