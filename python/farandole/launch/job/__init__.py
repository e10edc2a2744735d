"""A job from the first sign of life to the exit code: what every job has (driver.py), fixed ranks, elastic slots."""
