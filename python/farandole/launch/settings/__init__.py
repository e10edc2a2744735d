"""What a run was asked to do: flags, the configuration file, variables."""
