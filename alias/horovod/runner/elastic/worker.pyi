from farandole.elastic import *
