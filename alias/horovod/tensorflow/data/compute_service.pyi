from farandole.tensorflow.data.compute_service import *
