"""The measured search for a faster plan: candidates, successive halving, and the duel with the default.

Pure, as all of `placement`: imports `model` and `hardware` only.
May be imported by engine and the edges (cli, ui, server).
"""
