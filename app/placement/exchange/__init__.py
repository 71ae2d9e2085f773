"""Plans to and from other programs: llama.cpp's flags, words for LM Studio and Ollama, device maps, our own file.

Pure, as all of `placement`: imports `model` and `hardware` only.
May be imported by engine and the edges (cli, ui, server).
"""
