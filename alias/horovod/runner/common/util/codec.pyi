from farandole.launch.helpers.codec import *
