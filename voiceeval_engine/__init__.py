"""Runs voice-agent evaluations: bridge, measure, score, record. Knows no screen."""
