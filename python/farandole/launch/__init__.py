"""The launcher: here the programs that it consists of, in each package below one part of what they do."""
