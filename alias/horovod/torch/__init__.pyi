from farandole.torch import *
from horovod.torch import mpi_ops as mpi_ops
