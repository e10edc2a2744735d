"""Elastic jobs: decisions about slots, the driver that follows them, and what runs on each host."""
