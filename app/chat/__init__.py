"""Conversations: the message tree and its SQLite store.

No Qt, no llama.cpp; imports only `app.errors`.
May be imported by the edges (cli, ui, server).
"""
