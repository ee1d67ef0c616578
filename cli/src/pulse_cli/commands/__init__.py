"""One module for each command of the program; loaded when it is asked for."""
