"""What all tests share: properties are tried on the same examples in every run."""

from hypothesis import settings

# A run of the tests must not find by chance what the run before did not; to look further by hand:
# `pytest --hypothesis-profile=default`.
settings.register_profile("repeatable", derandomize=True)
settings.load_profile("repeatable")
