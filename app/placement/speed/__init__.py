"""How fast a plan is: measured rates of a machine, the law of speed, what real answers teach.

Pure, as all of `placement`: imports `model` and `hardware` only.
May be imported by engine and the edges (cli, ui, server).
"""
