from farandole.torch.elastic.sampler import *
