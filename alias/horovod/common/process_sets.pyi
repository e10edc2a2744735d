from farandole.process_sets import *
