# SPDX-License-Identifier: Apache-2.0
"""Imports, reads and compiles what every run of pytest does, in the process that ``tests.plugin.forked`` forks from."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import allure_pytest.listener
import allure_pytest.plugin  # noqa: F401
import pytest  # noqa: F401
import xdist.dsession
import xdist.plugin  # noqa: F401

import conformance.plugin.fixtures
from conformance.catalog import catalog
from conformance.qualify.sets import sets
from conformance.report.page import _template

for module in pkgutil.iter_modules(
    conformance.plugin.fixtures.__path__, "conformance.plugin.fixtures."
):
    importlib.import_module(module.name)
catalog()
sets()
_template()
for name, loaded in list(sys.modules.items()):
    if name.partition(".")[0] in {"conformance", "xdist", "allure_pytest", "pytest_rerunfailures"}:
        # pytest wants to import its plugins itself, and warns of those that are there unless they say this
        loaded.__doc__ = f"{loaded.__doc__ or ''}\nPYTEST_DONT_REWRITE"
