from farandole.torch.functions import *
