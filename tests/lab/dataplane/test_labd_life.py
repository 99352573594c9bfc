# SPDX-License-Identifier: Apache-2.0
"""labd starts or names what is missing, and leaves nothing behind after any of its processes."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hybridlab.dataplane.contract import remote_dataplane
from hybridlab.dataplane.model import NodeSpec
from hybridlab.kernel import preflight
from hybridlab.kernel.wire import CallFailed, ChannelClosed
from hybridlab.labd.launch import LabdFailed, LabdSettings, launch
from tests.lab.dataplane.conftest import Lab

NODE = NodeSpec(name="n", os="linux", address="10.0.0.11", prefix_length=24)
LIBRARY = str(Path(preflight.__file__).resolve().parents[2])


def namespaces(pid: Any) -> Any:
    """Every namespace that a process is in or holds."""
    found = set()
    for folder in ("ns", "fd"):
        for link in Path(f"/proc/{pid}/{folder}").iterdir():
            try:
                target = str(link.readlink())
            except OSError:
                continue
            if re.fullmatch(r"(net|mnt|user|pid|ipc|uts):\[\d+\]", target):
                found.add(target)
    return found


def held(spaces: Any) -> Any:
    """Which of these namespaces a process is in or holds.

    Only processes in one of the user namespaces among them are looked at: the kernel gives the numbers of namespaces
    that are gone to new ones, those of labs beside this one included.
    """
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if str((entry / "ns" / "user").readlink()) in spaces:
                    found |= namespaces(entry.name) & spaces
            except OSError:
                continue
    return found


def marked(mark: Any) -> Any:
    """Processes that were started, or forked from one that was started, with this in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def children(pid: Any) -> list[Any]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone(pids: Any, spaces: Any, patience: float = 5.0) -> Any:
    """What of it is left, waiting for the kernel to finish in the background."""
    end = time.monotonic() + patience
    while True:
        left = [f"process {p}" for p in pids if alive(p)] + sorted(held(spaces))
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.02)


def alive(pid: Any) -> Any:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


LAUNCHER = textwrap.dedent("""
    import asyncio, sys, time
    from hybridlab.labd.launch import LabdSettings, launch
    labd = launch(LabdSettings(services=("dataplane",)))
    from hybridlab.dataplane.model import NodeSpec
    from hybridlab.dataplane.contract import remote_dataplane

    async def main():
        plane = remote_dataplane(await labd.connect())
        await plane.add_node(NodeSpec(name="n", os="linux", address="10.0.0.11", prefix_length=24))
        print(labd.pid, flush=True)
        print(await labd.channel.wait_closed(), flush=True)

    asyncio.run(main())
""")


@pytest.fixture
def launcher() -> Iterator[Any]:
    """A process that has launched a labd with a node, as ``hybridlab up`` does."""
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([LIBRARY, *sys.path])},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        waiter = int(process.stdout.readline())
        (labd,) = children(waiter)
        yield process, {"launcher": process.pid, "waiter": waiter, "labd": labd}
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("victim", ["launcher", "waiter", "labd"])
def test_killing_any_process_leaves_no_process_and_no_namespace(launcher: Any, victim: str) -> None:
    process, pids = launcher
    spaces = (namespaces(pids["labd"]) | namespaces(pids["waiter"])) - namespaces(os.getpid())
    assert len([s for s in spaces if s.startswith("net:")]) >= 3  # home, underlay, node
    os.kill(pids[victim], signal.SIGKILL)
    assert gone([pids["waiter"], pids["labd"]], spaces) == []
    if victim != "launcher":
        assert process.stdout.read() == "end of file\n"


def test_a_labd_that_hangs_ends_with_its_launcher_too(launcher: Any) -> None:
    _, pids = launcher
    spaces = namespaces(pids["labd"]) - namespaces(os.getpid())
    os.kill(pids["labd"], signal.SIGSTOP)
    os.kill(pids["launcher"], signal.SIGKILL)
    assert gone([pids["waiter"], pids["labd"]], spaces) == []


def test_labds_home_network_is_empty(launcher: Any) -> None:
    _, pids = launcher
    lines = Path(f"/proc/{pids['labd']}/net/dev").read_text().splitlines()[2:]
    assert [line.split(":")[0].strip() for line in lines] == ["lo"]
    assert Path(f"/proc/{pids['labd']}/net/route").read_text().splitlines()[1:] == []


def test_no_process_of_a_pod_could_inherit_what_labd_holds(launcher: Any) -> None:
    _, pids = launcher
    open_on_exec = []
    for info in Path(f"/proc/{pids['labd']}/fdinfo").iterdir():
        (written,) = re.findall(r"^flags:\t(\d+)$", info.read_text(), re.M)
        flags = int(written, 8)
        if int(info.name) > 2 and not flags & os.O_CLOEXEC:
            open_on_exec.append(info.name)
    assert open_on_exec == []


def test_labd_does_not_die_by_the_terminals_interrupt(launcher: Any) -> None:
    _, pids = launcher
    assert len({os.getsid(pids[name]) for name in ("waiter", "labd")}) == 1
    assert os.getsid(pids["labd"]) != os.getsid(pids["launcher"])


def test_closing_ends_everything_before_it_returns() -> None:
    labd = launch(LabdSettings(services=("dataplane",)))

    async def live() -> Any:
        channel = await labd.connect()
        await remote_dataplane(channel).add_node(NODE)
        (inside,) = children(labd.pid)
        spaces = namespaces(inside) - namespaces(os.getpid())
        call = asyncio.ensure_future(channel.call("Dataplane.facts", {"node": "n"}))
        await asyncio.sleep(0)
        await labd.close()
        with pytest.raises(ChannelClosed, match="labd is gone"):
            await call
        with pytest.raises(ChannelClosed, match="labd is gone"):
            await channel.call("Dataplane.facts", {"node": "n"})
        return inside, spaces

    inside, spaces = asyncio.run(live())
    assert gone([labd.pid, inside], spaces) == []


def test_two_labs_do_not_see_each_other() -> None:
    first, second = (launch(LabdSettings(services=("dataplane",))) for _ in range(2))

    async def both() -> None:
        planes = [remote_dataplane(await labd.connect()) for labd in (first, second)]
        await planes[0].add_node(NODE)
        await planes[1].add_node(NODE)
        with pytest.raises(Exception, match="node n already exists"):
            await planes[1].add_node(NODE)
        await asyncio.gather(first.close(), second.close())

    asyncio.run(both())


def test_a_labd_that_cannot_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "hybridlab.labd.launch.asdict", lambda settings: {"services": [], "no_such_setting": 1}
    )
    null = os.open(os.devnull, os.O_WRONLY)
    labd = launch(LabdSettings(), log_fd=null)
    os.close(null)

    with pytest.raises(LabdFailed, match=r"ended before it was ready \(exit status 1\)"):
        asyncio.run(labd.connect())


def test_an_unknown_method_is_answered_with_the_known_ones(lab: Lab) -> None:
    with pytest.raises(
        CallFailed,
        match=r"there is no method Dataplane\.fly; the methods are Dataplane\.add_address",
    ):
        lab.run(lab.channel.call("Dataplane.fly"))


def test_a_machine_that_has_everything_lacks_nothing_and_nothing_of_the_trial_stays() -> None:
    mark = f"PREFLIGHT_TEST={uuid.uuid4()}"
    name, _, value = mark.partition("=")
    done = subprocess.run(
        [sys.executable, "-c", "from hybridlab.kernel import preflight; print(preflight.check())"],
        env={**os.environ, name: value, "PYTHONPATH": os.pathsep.join([LIBRARY, *sys.path])},
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert done.stdout == "[]\n", done.stdout + done.stderr
    assert gone(marked(mark), set()) == []


FORBIDDEN = textwrap.dedent("""
    import sys
    from pathlib import Path
    from hybridlab.kernel import enter, preflight
    enter.enter_user_namespace()
    for limit in sys.argv[1:]:
        Path("/proc/sys/user", limit).write_text("0")
    for lack in preflight.check():
        print(lack.what, "|", lack.why, "|", lack.remedy)
""")


@pytest.mark.parametrize(
    ("limit", "what", "remedy"),
    [
        ("max_user_namespaces", "user namespaces", "sysctl -w user.max_user_namespaces"),
        (
            "max_pid_namespaces",
            "namespaces inside a user namespace",
            "sysctl -w user.max_pid_namespaces",
        ),
    ],
)
def test_what_the_machine_forbids_is_named_with_what_to_allow(
    limit: str, what: str, remedy: str
) -> None:
    """In a user namespace of its own the test may forbid what an administrator would."""
    done = subprocess.run(
        [sys.executable, "-c", FORBIDDEN, limit],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([LIBRARY, *sys.path])},
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    assert done.stdout.startswith(what), done.stdout + done.stderr
    assert "ENOSPC" in done.stdout
    assert remedy in done.stdout


def test_a_missing_library_is_a_lack_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hybridlab.kernel.libnftables.LIBRARY", "libnftables-is-not-here.so.1")
    monkeypatch.setattr("hybridlab.kernel.libnftables.FETCHED", Path("/nowhere"))
    monkeypatch.setattr("hybridlab.kernel.nft._library", _uncached_library())
    (lack,) = preflight.check()
    assert lack.what == "libnftables"
    assert lack.remedy.startswith("hybridlab fetch-nftables (needs no root), or ")
    assert "libnftables-is-not-here.so.1: cannot open shared object file" in lack.why


def _uncached_library() -> Any:
    from hybridlab.kernel import nft

    return nft._library.__wrapped__
