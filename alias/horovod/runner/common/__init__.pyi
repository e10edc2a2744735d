from farandole.launch.helpers import *
