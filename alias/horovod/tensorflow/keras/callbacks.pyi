from farandole.tensorflow.keras.callbacks import *
