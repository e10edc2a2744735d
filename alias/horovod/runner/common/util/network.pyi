from farandole.launch.helpers.network import *
