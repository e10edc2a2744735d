from farandole.tensorflow.compression import *
