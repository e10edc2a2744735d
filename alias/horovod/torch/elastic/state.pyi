from farandole.torch.elastic.state import *
