# SPDX-License-Identifier: Apache-2.0
"""Direct server return (DSR): a Windows node's service load balancer keeps the client's address.

DSR needs both a build that supports DSR, and kube-proxy with ``--enable-dsr=true``.
"""

BUILD_1809 = 17763
REVISION_1809 = 1432
BUILD_1903 = 18317


def parse_build(windows_build: str) -> tuple[int, int]:
    """Return (build, revision) of a build such as ``10.0.17763.1432``. Raise ValueError for any
    other form."""
    parts = windows_build.split(".")
    if len(parts) != 4 or parts[:2] != ["10", "0"]:
        raise ValueError(f"Windows build is {windows_build!r}, expected like 10.0.17763.1432")
    return int(parts[2]), int(parts[3])


def supports_dsr(windows_build: str) -> bool:
    """Return whether the build supports DSR: 1809 from revision 1432 on, and every build from 18317
    on (the rule in Calico's code)."""
    build, revision = parse_build(windows_build)
    return build >= BUILD_1903 or (build == BUILD_1809 and revision >= REVISION_1809)


def uses_dsr(windows_build: str, *, enable_dsr: bool) -> bool:
    """Return whether the build supports DSR and kube-proxy is configured for it."""
    return enable_dsr and supports_dsr(windows_build)
