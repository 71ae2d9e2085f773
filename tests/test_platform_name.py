"""The names by which releases and components know a system: the same for every spelling of a processor."""

import pytest

from app.platform_name import platform_name, this_platform


@pytest.mark.parametrize(
    ("system", "machine", "name"),
    [
        ("linux", "x86_64", "linux-x86_64"),
        ("linux", "aarch64", "linux-aarch64"),
        ("win32", "AMD64", "windows-x86_64"),
        ("win32", "x64", "windows-x86_64"),
        ("win32", "ARM64", "windows-aarch64"),
    ],
)
def test_a_platform_is_named_as_in_the_feed(system, machine, name):
    assert platform_name(system, machine) == name


def test_this_platform_has_a_system_and_a_processor():
    system, _, processor = this_platform().partition("-")
    assert system
    assert processor
