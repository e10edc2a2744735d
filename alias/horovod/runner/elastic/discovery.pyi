from farandole.launch.elastic_discovery import *
