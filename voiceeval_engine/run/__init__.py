"""A whole run: options, queue, pairs, attempts, retries. The highest floor of the engine."""
