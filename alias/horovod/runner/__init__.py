"""Horovod's launcher: ``run`` here, the command line in ``horovod.runner.launch``."""

from farandole import run
from farandole.launch.helpers.arguments import HorovodArgs as _HorovodArgs

__all__ = ["_HorovodArgs", "run"]
