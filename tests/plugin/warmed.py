"""Imports, reads and compiles what every run of pytest does, in the process that ``tests.plugin.forked`` forks from."""

from __future__ import annotations

import importlib
import pkgutil

import allure_pytest.listener
import allure_pytest.plugin  # noqa: F401
import pytest  # noqa: F401
import xdist.dsession
import xdist.plugin  # noqa: F401

import conformance.plugin.fixtures
from conformance.catalog import catalog
from conformance.qualify.sets import sets
from conformance.report.page import _template

for module in pkgutil.iter_modules(conformance.plugin.fixtures.__path__, "conformance.plugin.fixtures."):
    importlib.import_module(module.name)
catalog()
sets()
_template()
