# SPDX-License-Identifier: Apache-2.0
"""Does the imports, reads and compilations of every run of pytest once, in the process that
``tests.plugin.forked`` forks from."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import sys
import tomllib  # noqa: F401

import allure_pytest.listener
import allure_pytest.plugin  # noqa: F401
import pytest  # noqa: F401
import pytest_rerunfailures  # type: ignore[import-untyped]  # noqa: F401
import xdist.dsession
import xdist.looponfail
import xdist.newhooks
import xdist.plugin  # noqa: F401

import conformance.outside
import conformance.plugin.exclusive
import conformance.plugin.fixtures
import conformance.plugin.limit
import conformance.plugin.once_more
import conformance.plugin.worlds
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
        # pytest wants to import its plugins itself, and warns of plugins that are already imported,
        # unless they contain this word
        loaded.__doc__ = f"{loaded.__doc__ or ''}\nPYTEST_DONT_REWRITE"
gc.collect()
# pytest collects garbage four times at its end; objects that exist already are excluded
gc.freeze()
