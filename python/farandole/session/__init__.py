"""How a process enters its job and leaves it."""
