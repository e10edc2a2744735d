from farandole.torch.sync_batch_norm import *
