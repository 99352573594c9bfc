"""Loads the conformance plugin; everything else about runs is in ``lib/conformance/plugin``."""

pytest_plugins = ["conformance.plugin"]
