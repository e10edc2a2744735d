"""What takes the place of a launcher when somebody else has started the processes."""
