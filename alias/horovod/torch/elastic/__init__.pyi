from farandole.torch.elastic import *
