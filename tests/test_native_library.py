"""Why a library does not load: the system's words, also where a frozen app puts a guess around them."""

import ctypes

import pytest

from app.native_library import why_not_loaded


def refused(path):
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        return error
    return pytest.fail("it was loaded")


def test_the_systems_words_are_told_without_a_full_stop(tmp_path):
    file = tmp_path / "libnone.so"
    file.write_bytes(b"no library")
    assert str(file) in why_not_loaded(refused(file))
    assert why_not_loaded(OSError("The module was not found.")) == "The module was not found"


def test_what_lies_below_a_guess_is_told_instead_of_it(tmp_path):
    guess = OSError("Failed to load it. Most likely it was not found when the application was frozen.")
    guess.__cause__ = OSError("libvulkan.so.1: cannot open shared object file: No such file or directory")
    assert why_not_loaded(guess) == "libvulkan.so.1: cannot open shared object file: No such file or directory"


def test_an_error_that_came_of_something_else_speaks_for_itself():
    error = AttributeError("undefined symbol: expert_device_abi")
    error.__cause__ = KeyError("other")
    assert why_not_loaded(error) == "undefined symbol: expert_device_abi"
