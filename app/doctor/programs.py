"""Which programs a person may be told to close: not those that the desktop and the system themselves are made of."""

# Lower case, by the names that the kernel (15 characters at most) and Windows give: display servers, window managers
# and shells, whose end ends the session, and what Windows keeps compressed pages and virtual machines in.
_NAMES = """
xorg xwayland xwayland.bin x gnome-shell mutter mutter-x11-fram kwin_wayland kwin_x11 plasmashell sway hyprland
weston labwc wayfire niri cosmic-comp cinnamon marco xfwm4 muffin budgie-wm gala gamescope gamescope-wl lightdm gdm
sddm systemd init dbus-daemon dwm.exe explorer.exe csrss.exe winlogon.exe sihost.exe shellexperiencehost.exe
startmenuexperiencehost.exe searchhost.exe textinputhost.exe svchost.exe lsass.exe services.exe msmpeng.exe system
registry memcompression vmmem vmmemwsl
"""
_NOT_TO_CLOSE = frozenset(_NAMES.split())


def may_be_closed(name: str) -> bool:
    """Whether closing it costs no more than its own windows.

    Args:
        name: Without folder and arguments.
    """
    return name.lower() not in _NOT_TO_CLOSE
