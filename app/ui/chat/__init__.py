"""The chat page: transcript, message widgets, composer, conversation list.

Imports `app.ui.controller`, `app.ui.theme` and `app.chat`; imported by `app.ui.main_window`.
"""
