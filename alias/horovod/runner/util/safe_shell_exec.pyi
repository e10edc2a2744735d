from farandole.launch.helpers.safe_shell_exec import *
