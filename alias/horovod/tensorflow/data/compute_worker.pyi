from farandole.tensorflow.data.compute_worker import *
