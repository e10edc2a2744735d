"""Who this process is: rank, size, and what was built."""
