from farandole.tensorflow.functions import *
