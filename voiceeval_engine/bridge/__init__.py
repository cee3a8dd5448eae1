"""One conversation between two bots: set-up, turns, latency, ending, sync."""
