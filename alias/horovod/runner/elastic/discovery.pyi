from farandole.launch.job.discovery import *
