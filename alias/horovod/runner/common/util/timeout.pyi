from farandole.launch.helpers.timeout import *
