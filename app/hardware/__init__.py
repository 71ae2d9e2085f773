"""What this machine is: probe and live sampling.

No Qt, no llama.cpp; the engine's devices come in as an argument.
May be imported by placement, engine and the edges (cli, ui, server).
"""
