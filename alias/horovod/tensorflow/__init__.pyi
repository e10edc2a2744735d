from farandole.tensorflow import *
