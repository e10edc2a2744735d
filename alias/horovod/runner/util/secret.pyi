from farandole.launch.helpers.secret import *
