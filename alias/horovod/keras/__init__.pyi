from farandole.keras import *
