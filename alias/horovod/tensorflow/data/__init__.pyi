from farandole.tensorflow.data import *
