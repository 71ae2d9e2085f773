"""What is wrong with a machine, a plan or a running model, each with the figures that show it and one thing to do.

Pure: functions over what others measured. Imports model, hardware, placement and the engine's protocol; imported by
the commands and the window.
"""
