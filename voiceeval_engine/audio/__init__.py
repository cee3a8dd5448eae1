"""PCM in, PCM out: resampling, play-out, speech energy, noise, the recording. Lowest floor."""
