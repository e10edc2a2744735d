from farandole.exceptions import *
