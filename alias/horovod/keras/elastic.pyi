from farandole.keras.elastic import *
