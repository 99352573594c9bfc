# SPDX-License-Identifier: Apache-2.0
"""The features that the lab needs from this machine, tested in temporary namespaces, never guessed
from versions.

labd runs the same tests while it starts (:func:`start_probe`), so that they cost almost no time.
:func:`check` runs them without a lab. Nothing is left behind: the probing processes end, and their
namespaces with them.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from hybridlab.kernel import enter, namespaces
from hybridlab.kernel.errors import KernelError
from hybridlab.kernel.lack import Lack
from hybridlab.kernel.libnftables import NftMissing
from hybridlab.kernel.namespaces import CLONE_NEWNET, CLONE_NEWNS, MS_NOSUID
from hybridlab.kernel.nft import Nft, NftError
from hybridlab.kernel.rtnetlink import RouteSocket

LIBNFTABLES = "libnftables"
REMEDY = "hybridlab fetch-nftables (needs no root), or the system's package nftables"


def check() -> list[Lack]:
    """Test all features in a forked child, and return the missing features: none if a lab can run
    here. This takes about 20 ms, and needs no threads.

    Call it from a single-threaded process.
    """
    return read_probe(_fork_with_pipe(_enter_and_probe))


def start_probe() -> int:
    """Start the tests in a child, from labd inside its namespaces; pass the returned descriptor to
    :func:`read_probe`."""
    return _fork_with_pipe(_probe_inside)


def read_probe(pipe: int) -> list[Lack]:
    """Wait for the findings of a probing child, and for its end."""
    with os.fdopen(pipe, "rb") as stream:
        findings = stream.read()
    os.waitpid(_children.pop(pipe), 0)
    if not findings:
        return [
            Lack(
                what="result of the preflight checks",
                why="the checking process ended early",
                remedy="look for its traceback on standard error, and report it",
            )
        ]
    return [Lack(**item) for item in json.loads(findings)]


_children: dict[int, int] = {}


def _fork_with_pipe(probe: Callable[[], list[Lack]]) -> int:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(writing, json.dumps([asdict(lack) for lack in probe()]).encode())
            status = 0
        except BaseException as error:  # the child must never return into the caller's code
            sys.stderr.write(f"preflight: {error!r}\n")
            sys.stderr.flush()
        finally:
            os._exit(status)
    os.close(writing)
    _children[reading] = child
    return reading


def _enter_and_probe() -> list[Lack]:
    lack = enter_or_lack()
    if lack is not None:
        return [lack]
    # Only children are in the new pid namespace, and only a process in it can mount its /proc.
    return read_probe(_fork_with_pipe(_probe_inside))


def enter_or_lack() -> Lack | None:
    """Enter the lab's namespaces, or return the reason why this is forbidden."""
    remedy = _userns_remedy()  # computed now: inside, the limits are those of the new namespace
    try:
        enter.enter_user_namespace()
    except (KernelError, OSError) as error:
        return Lack(what="user namespaces", why=str(error), remedy=remedy)
    try:
        enter.enter_other_namespaces()
    except (KernelError, OSError) as error:
        return Lack(what="namespaces inside a user namespace", why=str(error), remedy=remedy)
    return None


def _sysctl(name: str) -> str:
    try:
        return Path("/proc/sys", name.replace(".", "/")).read_text().strip()
    except OSError:
        return ""


def _userns_remedy() -> str:
    if _sysctl("kernel.unprivileged_userns_clone") == "0":
        return "sysctl -w kernel.unprivileged_userns_clone=1"
    limits = [f"user.max_{kind}_namespaces" for kind in ("user", "net", "mnt", "pid", "ipc", "uts")]
    if closed := [limit for limit in limits if _sysctl(limit) == "0"]:
        return "sysctl -w " + " ".join(f"{limit}=15000" for limit in closed)
    if _sysctl("kernel.apparmor_restrict_unprivileged_userns") == "1":
        return (
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, "
            "or an AppArmor profile with `userns,` for this Python"
        )
    return (
        "a kernel with CONFIG_USER_NS; in a container, a seccomp profile that permits unshare and mount "
        "(docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined)"
    )


def _probe_inside() -> list[Lack]:
    """Test all other features inside the namespaces. Every step is tried, so that all missing
    features are reported at once."""
    lacks = []
    for what, step, remedy in _STEPS:
        try:
            step()
        except (KernelError, NftError, OSError) as error:
            lacks.append(Lack(what=what, why=str(error), remedy=remedy))
        except NftMissing as error:
            lacks.append(Lack(what=LIBNFTABLES, why=str(error), remedy=REMEDY))
    return lacks


def _veth() -> None:
    with RouteSocket() as route:
        route.add_veth(
            "probe0", mac="02:00:00:00:00:01", mtu=1500, index=100, peer="probe1", peer_index=101
        )
        route.flush()


def _bridge() -> None:
    with RouteSocket() as route:
        route.add_bridge("probe2", index=102)
        route.flush()


def _vxlan() -> None:
    with RouteSocket() as route:
        route.add_tunnel(
            "probe3", index=103, identifier=4096, port=4789, mtu=1450, mac="02:00:00:00:00:02"
        )
        route.flush()


def _nft() -> None:
    nft = Nft("preflight")
    try:
        nft.run(
            """
            add table ip probe
            add set ip probe nets { type ipv4_addr; flags interval; }
            add map ip probe ends { type ifname : verdict; }
            add chain ip probe f_fwd { type filter hook forward priority 0; policy accept; }
            add rule ip probe f_fwd ct state established accept
            add rule ip probe f_fwd meta l4proto tcp ip saddr @nets reject with tcp reset
            add rule ip probe f_fwd iifname vmap @ends
            add chain ip probe f_pre { type nat hook prerouting priority -100; policy accept; }
            add rule ip probe f_pre fib daddr type local accept
            add rule ip probe f_pre tcp dport 1 dnat ip to numgen random mod 1 map { 0 : 192.0.2.1 . 1 }
            add chain ip probe f_post { type nat hook postrouting priority 100; policy accept; }
            add rule ip probe f_post meta mark and 0x4000 == 0x4000 masquerade fully-random
            """
        )
        nft.run(
            "add table bridge probe\nadd chain bridge probe f_fwd { type filter hook forward priority -200; }"
        )
    finally:
        nft.close()


def _file_system() -> None:
    namespaces.unshare(CLONE_NEWNS, "mount namespace")
    root = "/tmp"  # any directory will do: only this process has the tmpfs
    namespaces.mount("tmpfs", root, "tmpfs", MS_NOSUID, "size=64k,mode=755")
    for name in ("proc", "old"):
        Path(root, name).mkdir()
    try:
        namespaces.mount("proc", f"{root}/proc", "proc")
    except KernelError as error:
        raise KernelError("mount proc in a container's root", error.errno) from error
    namespaces.pivot_root(root, f"{root}/old")


_MODULE = "sudo modprobe {0} (the module is not loaded, or this kernel was built without it)"

_STEPS: tuple[tuple[str, Callable[[], None], str], ...] = (
    (
        "network namespaces",
        partial(namespaces.unshare, CLONE_NEWNET, "network namespace"),
        "sysctl -w user.max_net_namespaces=15000",
    ),
    ("veth devices", _veth, _MODULE.format("veth")),
    ("bridge devices", _bridge, _MODULE.format("bridge")),
    ("vxlan devices", _vxlan, _MODULE.format("vxlan")),
    (
        "nftables rules",
        _nft,
        _MODULE.format("-a nf_tables nft_chain_nat nft_ct nft_fib_ipv4 nft_reject_ipv4"),
    ),
    (
        "container file systems (tmpfs, /proc, pivot_root)",
        _file_system,
        "in a container, run it with an unmasked /proc (docker run --security-opt systempaths=unconfined)",
    ),
)
