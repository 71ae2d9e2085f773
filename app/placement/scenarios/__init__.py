"""What a benchmark runs and how it is judged: texts, schedule, plans, results.

Pure, as all of `placement`: imports `model` and `hardware` only.
May be imported by engine and the edges (cli, ui, server).
"""
