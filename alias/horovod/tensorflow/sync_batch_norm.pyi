from farandole.tensorflow.sync_batch_norm import *
