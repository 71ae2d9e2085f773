"""The tuning dock: speed against the pool's size, knobs for every choice of a plan, and tuning by measurement.

Imports the rest of the window, `placement` and `engine.protocol`; only the main window imports it, when it is shown.
"""
