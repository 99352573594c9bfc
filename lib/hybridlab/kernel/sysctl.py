# SPDX-License-Identifier: Apache-2.0
"""Per-namespace kernel settings, written in the network namespace of the calling thread."""

from pathlib import Path

from hybridlab.kernel.errors import KernelError

_ROOT = Path("/proc/sys")


def write(name: str, value: int | str, *, optional: bool = False) -> None:
    """Set ``net/...`` for the thread's network namespace; ``optional``: do nothing, without an
    error, if this kernel lacks it."""
    try:
        (_ROOT / name).write_text(str(value))
    except FileNotFoundError as error:
        if not optional:
            raise KernelError(f"sysctl {name}", error.errno or 2) from error
    except OSError as error:
        raise KernelError(f"sysctl {name}={value}", error.errno or 5) from error
