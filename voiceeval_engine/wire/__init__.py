"""Talking to one bot: frames, RTVI messages, one connection. Lowest floor."""
