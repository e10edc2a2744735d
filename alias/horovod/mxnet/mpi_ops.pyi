from farandole.mxnet import *
