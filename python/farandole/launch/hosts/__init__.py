"""Hosts: how they are named, which ranks run where, and under which addresses they find each other."""
