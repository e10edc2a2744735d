from farandole.data.loaders import *
