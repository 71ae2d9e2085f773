"""The window: wizard, chat, lanes, graphs. The only package that imports Qt.

Imports engine.client, engine.protocol, placement, hardware, library, chat and model.
Nothing imports it but `app.__main__`.
"""
