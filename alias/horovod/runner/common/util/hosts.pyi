from farandole.launch.helpers.hosts import *
