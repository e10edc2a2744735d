from farandole.torch.optimizer import *
