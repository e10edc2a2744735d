from farandole.data import *
