"""What all tests share: properties are tried on the same examples in every run."""

from hypothesis import HealthCheck, settings

# A run of the tests must not find by chance what the run before did not; to look further by hand:
# `pytest --hypothesis-profile=default`. Nor must it fail for how long an example took on a busy machine.
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")
