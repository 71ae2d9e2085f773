"""Newer releases of this app: looks for them when asked, fetches one and proves it genuine; never installs anything.

No Qt, no llama.cpp; imports `app.errors`, `app.units`, `app.platform_name` and `app.library` (folders, records, locks).
May be imported by the window.
"""
