from farandole.keras.callbacks import *
