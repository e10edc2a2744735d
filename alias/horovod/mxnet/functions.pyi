from farandole.mxnet.functions import *
