"""Small helpers of a launcher, under the names that other projects import from ``horovod.runner``."""
