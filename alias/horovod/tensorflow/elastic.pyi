from farandole.tensorflow.elastic import *
