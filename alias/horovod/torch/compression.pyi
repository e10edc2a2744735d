from farandole.torch.compression import *
