"""The expert cache seen from outside: its policy and simulator, traces, hit rates, what it reports.

Pure, as all of `placement`: imports `model` and `hardware` only.
May be imported by engine and the edges (cli, ui, server).
"""
