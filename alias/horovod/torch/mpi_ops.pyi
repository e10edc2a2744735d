from farandole.torch import *
