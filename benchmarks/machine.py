# SPDX-License-Identifier: Apache-2.0
"""The machine on which figures were measured: without it, a figure means nothing."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


def describe() -> str:
    """Return one line with cores, memory, kernel, Python, and whether every process compiles its
    modules again."""
    memory = next(
        int(line.split()[1])
        for line in Path("/proc/meminfo").read_text().splitlines()
        if line.startswith("MemTotal")
    )
    models = [
        line
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    model = models[0].partition(":")[2].strip() if models else platform.machine()
    bytecode = ", bytecode not kept (PYTHONDONTWRITEBYTECODE)" if sys.dont_write_bytecode else ""
    return (
        f"{os.cpu_count()} cores ({model}), {memory / 2**20:.0f} GiB, Linux {platform.release().partition('-')[0]}, "
        f"Python {platform.python_version()}, uid {os.getuid()}{bytecode}"
    )
