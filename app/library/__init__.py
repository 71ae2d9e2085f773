"""Models on this machine: the demo model, and where models are kept.

No Qt, no llama.cpp; imports `app.errors` and `app.model`.
May be imported by the edges (cli, ui, server).
"""
