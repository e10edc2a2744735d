from farandole.launch.helpers.host_hash import *
