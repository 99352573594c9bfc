# SPDX-License-Identifier: Apache-2.0
"""Loads the conformance plugin; everything else about runs is in ``lib/conformance/plugin``."""

import importlib.util
import sys

NEEDED = ("kubernetes", "tenacity", "yaml", "websocket", "jinja2")

if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
    print(
        f"ERROR: {sys.executable} lacks packages that the suite needs ({', '.join(missing)}); "
        "install them: make suite && . .venv/bin/activate",
        file=sys.stderr,
    )
    raise SystemExit(4)

pytest_plugins = ["conformance.plugin"]
