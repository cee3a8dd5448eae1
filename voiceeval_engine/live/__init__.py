"""What a watcher needs: typed events, the journal, the fold into a run state. Lowest floor."""
