"""Fixtures of several test modules."""

from own_plugin import own  # noqa: F401 - a fixture
