from farandole.tensorflow.keras.elastic import *
