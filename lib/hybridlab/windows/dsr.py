# SPDX-License-Identifier: Apache-2.0
"""Whether a Windows node's service load balancer keeps the client's address (direct server return, DSR).

It takes both: a build that can, and kube-proxy told to with ``--enable-dsr=true``.
"""

BUILD_1809 = 17763
REVISION_1809 = 1432
BUILD_1903 = 18317


def parse_build(windows_build: str) -> tuple[int, int]:
    """(build, revision) of ``10.0.17763.1432``.  Raises ValueError for anything of another shape."""
    parts = windows_build.split(".")
    if len(parts) != 4 or parts[:2] != ["10", "0"]:
        raise ValueError(f"Windows build is {windows_build!r}, expected like 10.0.17763.1432")
    return int(parts[2]), int(parts[3])


def supports_dsr(windows_build: str) -> bool:
    """The build can: 1809 from revision 1432 on, and everything from build 18317 on (Calico's own decision)."""
    build, revision = parse_build(windows_build)
    return build >= BUILD_1903 or (build == BUILD_1809 and revision >= REVISION_1809)


def uses_dsr(windows_build: str, *, enable_dsr: bool) -> bool:
    """The build can and kube-proxy was told to."""
    return enable_dsr and supports_dsr(windows_build)
