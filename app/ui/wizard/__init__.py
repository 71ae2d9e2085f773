"""The wizard: model, machine, plan, load; each page explains itself and can go back.

`flow` is the wizard without Qt; the pages show it over the controller. Imports ui's shared modules,
library, placement and hardware; imported by the main window.
"""

from app.ui.wizard.wizard import Wizard

__all__ = ["Wizard"]
