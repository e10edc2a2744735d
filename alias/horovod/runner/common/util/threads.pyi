from farandole.launch.helpers.threads import *
