from farandole.launch.helpers.env import *
