from farandole.tensorflow.keras import *
