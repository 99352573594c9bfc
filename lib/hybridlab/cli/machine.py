# SPDX-License-Identifier: Apache-2.0
"""Everything that this machine lacks for a lab, with the remedies for its operating system.

``python -m hybridlab.cli.machine`` checks before anything is installed, and needs only the standard
library.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
import sys

from hybridlab.cluster.exits import ENVIRONMENT, OK

INSTALLS = {
    "debian": "sudo apt-get install nftables", "ubuntu": "sudo apt-get install nftables",
    "fedora": "sudo dnf install nftables", "rhel": "sudo dnf install nftables",
    "arch": "sudo pacman -S nftables", "suse": "sudo zypper install libnftables1", "alpine": "sudo apk add nftables",
}  # fmt: skip
"""The commands that install libnftables, by ID or ID_LIKE of os-release."""
NO_LINUX = (
    "a lab needs the namespaces of Linux, but this system is {0}: use a Linux virtual machine (macOS: lima or "
    "colima; Windows: WSL 2), or test the cluster that --kubeconfig names, which needs no lab"
)
PACKAGES = ("aiohttp", "dnslib", "jsonpatch", "orjson", "trustme")
"""The packages that the lab needs in addition to the suite's: the extra `lab` of pyproject.toml."""
SUITE = "calico-windows-conformance"
DEFAULT_NODES = 6
"""The number of nodes of the profile `default`, which cannot be read before YAML is installed."""


def install_nftables() -> str:
    """Return how the package with libnftables is installed here."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    names = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    kinds = [
        kind for name in names for kind in INSTALLS if name.startswith(kind) or name.endswith(kind)
    ]
    return INSTALLS[kinds[0]] if kinds else "the system's package with libnftables.so.1 (nftables)"


def missing_packages() -> str:
    """Return the missing packages of the lab and the command that installs them; return an empty
    string if none is missing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if not missing:
        return ""
    from importlib import metadata  # takes 20 ms, and is rarely needed

    is_installed = any(metadata.distributions(name=SUITE))
    command = f"{sys.executable} -m pip install '{SUITE}[lab]'" if is_installed else "make suite"
    return (
        f"Python packages of the lab are not installed ({', '.join(missing)}); install them with: "
        f"{command}; with --kubeconfig=FILE the suite needs no lab"
    )


def can_fetch() -> bool:
    """Return whether Debian's own programs are present, with which a user can fetch packages
    without root."""
    return bool(shutil.which("apt-get") and shutil.which("dpkg-deb"))


def lacks() -> list[str]:
    """Return one line for each missing feature. A missing libnftables counts only if it cannot be
    fetched."""
    if sys.platform != "linux":
        return [NO_LINUX.format(platform.system())]
    from hybridlab.kernel import open_files, preflight  # can be imported only on Linux

    too_few = open_files.lack(DEFAULT_NODES).removeprefix("this machine allows ")
    found = [too_few] if too_few else []
    if importlib.util.find_spec("ensurepip") is None:
        install = (
            f"remedy: sudo apt-get install python3-venv (for {sys.executable})"
            if can_fetch()
            else "remedy: install ensurepip"
        )
        found.append(f"no virtual environments with pip: this Python has no ensurepip; {install}")
    for lack in preflight.check():
        if lack.what != preflight.LIBNFTABLES:
            found.append(f"no {lack.what}: {lack.why}; remedy: {lack.remedy}")
        elif not can_fetch():
            found.append(f"no {lack.what}: {lack.why}; remedy: {install_nftables()}")
    return found


def main() -> int:
    """Print the missing features. Return 7 if any feature is missing."""
    found = lacks()
    for line in found:
        print(f"this machine cannot run a lab: {line}", file=sys.stderr)
    return ENVIRONMENT if found else OK


if __name__ == "__main__":
    sys.exit(main())
