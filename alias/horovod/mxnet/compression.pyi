from farandole.mxnet.compression import *
