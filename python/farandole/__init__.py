"""Farandole: distributed training with Horovod's interface.

Importing this package starts nothing and loads no framework; ``import farandole.torch as hvd`` is the way in.
"""

from farandole.launch.function.run import run
from farandole.version import __version__

__all__ = ["__version__", "run"]
