"""The engine: llama.cpp in a child process, the native expert device, and the client that talks to it.

The only package that imports llama_cpp; `client` and `protocol` import none of it.
The edges (cli, ui, server) import `client` and `protocol` only.
"""
