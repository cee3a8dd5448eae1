"""What a session is on disk: names, files, models, evidence, aggregates. Lowest floor."""
