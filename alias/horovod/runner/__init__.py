"""Horovod's launcher: ``run`` here, the command line in ``horovod.runner.launch``."""

from farandole import run

__all__ = ["run"]
