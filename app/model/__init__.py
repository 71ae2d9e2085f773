"""What a GGUF file is: facts, tensor roles, shards.

Pure: imports no Qt and no llama.cpp, only `app.errors`.
May be imported by every other package.
"""
