# SPDX-License-Identifier: Apache-2.0
"""``hybridlab fetch-nftables``: puts libnftables next to this Python, with the distribution's own
programs and without root.

apt-get fetches the packages into a separate folder, with package lists and signatures from the
sources of the system. Nothing is installed in the system.
"""

import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from hybridlab.cli.machine import can_fetch, install_nftables
from hybridlab.cluster.exits import ENVIRONMENT, OK, Stop
from hybridlab.kernel import libnftables

PACKAGES = ("libnftables1", "libnftnl11", "libmnl0", "libjansson4", "libxtables12")
"""The packages of Debian and Ubuntu that contain the libraries; a bare system has none of them."""
WITHIN = 300.0
"""The time limit, in seconds, of each program; apt-get's package lists are 10 to 30 MB."""


def run() -> int:
    """Fetch the library if it is missing.  Raise Stop with the messages of the system's own
    programs."""
    try:
        libnftables.load()
    except libnftables.NftMissing as missing:
        if not can_fetch():
            raise Stop(ENVIRONMENT, f"{missing}; install it with:  {install_nftables()}") from None
    else:
        print("libnftables is already installed")
        return OK
    print(
        f"fetching libnftables into {libnftables.FETCHED}, after 20 MB of package lists",
        flush=True,
    )
    with TemporaryDirectory(prefix="hybridlab-") as folder:
        _fetch(Path(folder))
        kept = _keep(Path(folder))
    try:
        libnftables.load()
    except libnftables.NftMissing as missing:
        raise Stop(
            ENVIRONMENT,
            f"the fetched libnftables does not work: {missing}; "
            f"install it with:  {install_nftables()}",
        ) from None
    print(f"libnftables is installed: {kept / 1e6:.1f} MB in {libnftables.FETCHED}")
    return OK


def _fetch(folder: Path) -> None:
    """Fetch package lists and packages into the folder, and unpack the packages there."""
    for name in ("lists/partial", "cache/archives/partial", "packages"):
        (folder / name).mkdir(parents=True)
    own = {
        "Dir::State::Lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Debug::NoLocking": 1,
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
    }
    apt = [
        "apt-get",
        "-qq",
        *(word for name, value in own.items() for word in ("-o", f"{name}={value}")),
    ]
    _call([*apt, "update"], folder)
    _call([*apt, "download", *PACKAGES], folder / "packages")
    for package in sorted((folder / "packages").glob("*.deb")):
        _call(["dpkg-deb", "-x", str(package), str(folder / "root")], folder)


def _keep(folder: Path) -> int:
    """Copy the libraries, libnftables last, to the folder in which the lab searches for them.
    Return their size in bytes."""
    libnftables.FETCHED.mkdir(parents=True, exist_ok=True)
    total = 0
    for name in (*libnftables.NEEDED, libnftables.LIBRARY):
        found = next((folder / "root").rglob(name), None)
        if found is None:
            raise Stop(
                ENVIRONMENT,
                f"the packages {', '.join(PACKAGES)} do not contain {name}; "
                f"install libnftables with:  {install_nftables()}",
            )
        there = libnftables.FETCHED / f".{name}"
        shutil.copyfile(found.resolve(), there)
        there.replace(libnftables.FETCHED / name)
        total += (libnftables.FETCHED / name).stat().st_size
    return total


def _call(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN,
            check=False,
        )
        problem = " ".join((done.stderr or done.stdout).split())[-500:] if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if problem:
        verb = "update" if "update" in command else "download" if "download" in command else "-x"
        raise Stop(
            ENVIRONMENT,
            f"{command[0]} {verb} failed: {problem}; "
            f"install libnftables with:  {install_nftables()}",
        )
