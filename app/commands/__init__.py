"""The commands of the command line, one module each: its arguments, and what it prints.

No Qt, no llama.cpp; imports what edges may (placement, hardware, library, model, engine.client, engine.protocol).
May be imported by `cli` only.
"""
