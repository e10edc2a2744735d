"""Agent and controller as children of the launcher."""
