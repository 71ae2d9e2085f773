"""Where every byte of a model goes: plan, memory model, planner.

Pure functions over model and hardware facts: no Qt, no llama.cpp, no input or output.
May be imported by engine and the edges (cli, ui, server).
"""
