"""The launcher. Here the programs; each folder has one part of them, python/README.md says which."""
