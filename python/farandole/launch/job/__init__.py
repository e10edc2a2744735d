"""A job whose processes stay the same: from the first sign of life to the exit code."""
