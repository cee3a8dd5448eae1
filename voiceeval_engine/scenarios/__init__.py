"""What a scenario is and where scenarios come from. Imports the lowest floor only."""
