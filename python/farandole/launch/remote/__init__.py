"""Other hosts, which are reached through ssh."""
