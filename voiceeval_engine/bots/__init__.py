"""The embedded pair: two scripted bots that speak the bot side of the wire."""
