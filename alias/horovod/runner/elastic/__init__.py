"""Elastic runs: where hosts come from."""
