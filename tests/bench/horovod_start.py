"""A rank of bench_horovod that joins its job and ends. argv: `farandole` or `horovod`."""

import importlib
import sys

hvd = importlib.import_module(f"{sys.argv[1]}.torch")
hvd.init()
hvd.shutdown()
