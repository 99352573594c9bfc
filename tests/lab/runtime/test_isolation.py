# SPDX-License-Identifier: Apache-2.0
"""A pod can neither read nor write the user's files, and reaches no process but its own.

The tests put files where a user has them: in a directory like a home, in the checkout, beside the
interpreter. A program in a pod then looks for them by every way out of a container that needs no
kernel bug.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.lab.runtime.conftest import Lab

CHECKOUT = Path(__file__).resolve().parents[3]

ESCAPES = r"""
import ctypes, glob, json, os, socket, sys
paths = json.loads(sys.argv[1])
word = "".join(reversed(sys.argv[2]))
libc = ctypes.CDLL(None, use_errno=True)
found = []

def look(why):
    roots = ["", "/..", "/proc/self/root", "/proc/self/cwd", "/proc/1/root", "/proc/1/cwd", "/.old", "/old", "/mnt"]
    roots += glob.glob("/proc/[0-9]*/root") + glob.glob("/proc/[0-9]*/cwd") + glob.glob("/proc/[0-9]*/fd/*")
    roots += ["/proc/self/cwd" + "/.." * 12, "/proc/1/root" + "/.." * 12]
    places = [root + path for root in roots for path in paths]
    for place in places:
        try:
            if word in open(place).read():
                found.append(f"{why}: read {place}")
        except OSError:
            pass
        try:
            if os.path.basename(place) in os.listdir(os.path.dirname(place)):
                found.append(f"{why}: listed {place}")
        except OSError:
            pass
    made = set()
    for place in places:
        try:
            open(place, "a").write("touched")
            made.add(place)
        except OSError:
            pass
    for place in made:
        try:
            os.unlink(place)
        except OSError:
            pass

for top, _, names in os.walk("/"):
    if top.startswith(("/proc", "/sys")):
        continue
    for name in names:
        if word in name:
            found.append(f"walk: {top}/{name}")
look("plain")

# More rights are what an escape would need: none of these may be granted.
MS_REMOUNT, MS_BIND, MS_REC = 32, 4096, 16384
def attempt(why, *call):
    if call[0](*call[1:]) == 0:
        found.append(f"allowed: {why}")
for target in (b"/usr/bin", b"/usr/lib", b"/usr/local", b"/"):
    attempt(f"remount {target.decode()} writable", libc.mount, None, target, None, MS_REMOUNT | MS_BIND, None)
    attempt(f"umount {target.decode()}", libc.umount2, target, 2)
attempt("mount tmpfs", libc.mount, b"none", b"/mnt", b"tmpfs", 0, None)
attempt("mknod", libc.mknod, b"/tmp/disk", 0o60600, os.makedev(254, 0))
for name in ("mnt", "user", "net", "pid", "uts"):
    for pid in [d for d in os.listdir("/proc") if d.isdigit()]:
        try:
            fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
        except OSError:
            continue
        if os.stat(f"/proc/{pid}/ns/{name}").st_ino != os.stat(f"/proc/self/ns/{name}").st_ino:
            attempt(f"setns {name} of {pid}", libc.setns, fd, 0)
for path in ("/usr/bin/sh", "/usr/lib/planted", "/usr/local/lib/planted", "/proc/sys/kernel/core_pattern"):
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT))
        found.append(f"writable: {path}")
    except OSError:
        pass

if libc.unshare(0x10000000 | 0x20000) == 0:      # a user namespace of one's own gives rights over nothing outside
    look("user namespace")
    for target in (b"/usr/bin", b"/usr/lib", b"/usr/local"):
        why = f"remount {target.decode()} writable in a user namespace"
        attempt(why, libc.mount, None, target, None, MS_REMOUNT | MS_BIND, None)
        attempt(f"umount {target.decode()} in a user namespace", libc.umount2, target, 2)
    os.makedirs("/tmp/top", exist_ok=True)
    libc.mount(b"/", b"/tmp/top", None, MS_BIND | MS_REC, None)
    look("bound root")
    try:
        os.close(os.open("/tmp/top/usr/lib/planted", os.O_WRONLY | os.O_CREAT))
        found.append("writable: library directory in a user namespace")
    except OSError:
        pass
print(json.dumps({"found": found, "pids": sorted(int(d) for d in os.listdir("/proc") if d.isdigit())}))
"""


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[tuple[str, list[Path]]]:
    """A secret word, and the files that hold it and have it in their names."""
    word = "secret" + secrets.token_hex(8)
    files = [tmp_path / "home" / f"{word}.txt", CHECKOUT / f".planted-{word}"]
    for directory in (Path.home(), Path(sysconfig.get_path("purelib")), Path(sys.base_prefix)):
        if os.access(directory, os.W_OK):
            files.append(directory / f".planted-{word}")
    try:
        for file in files:
            file.parent.mkdir(exist_ok=True)
            file.write_text(word)
        yield word, files
    finally:
        for file in files:
            file.unlink(missing_ok=True)


def test_a_pod_can_neither_read_nor_write_nor_list_the_users_files(
    lab: Lab, planted: tuple[str, list[Path]]
) -> None:
    word, files = planted
    pod = lab.start("escape", "python:3.12-alpine", command=("sleep", "3600"))
    ran = lab.exec(
        pod, "python3", "-c", ESCAPES, json.dumps([str(file) for file in files]), word[::-1]
    )
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["found"] == []
    assert {file.read_text() for file in files} == {word}


def test_a_pod_sees_only_its_own_processes(lab: Lab) -> None:
    lab.start("neighbour", "busybox:1.36", command=("sh", "-c", "while true; do sleep 3600; done"))
    pod = lab.start(
        "alone", "python:3.12-alpine", command=("sh", "-c", "while true; do sleep 3600; done")
    )
    ran = lab.exec(
        pod, "sh", "-c", "cat /proc/1/cmdline | tr '\\0' ' '; ls -d /proc/[0-9]* | wc -l"
    )
    assert ran.out.startswith("sh -c while true; do sleep 3600; done")
    assert int(ran.out.split()[-1]) <= 6, "its shell, its sleep, and this command's own"


def test_applets_that_work_for_a_shell_write_inside_the_container_only(
    lab: Lab, planted: tuple[str, list[Path]]
) -> None:
    word, files = planted
    lab.start("writer-server", "nginx:1.27")
    pod = lab.start("writer", "busybox:1.36", command=("sleep", "3600"))
    url = f"http://{lab.address('writer-server')}"
    for file in files:
        lab.exec(pod, "wget", "-q", "-O", str(file), url)
        lab.exec(
            pod,
            "sh",
            "-c",
            f"ln -sf {file} /tmp/link; wget -q -O /tmp/link {url}; cd /tmp; wget -q -O ../../../../..{file} {url}",
        )
    assert {file.read_text() for file in files} == {word}
    ran = lab.exec(pod, "sh", "-c", f"wget -q -O /tmp/page {url} && grep -c Welcome /tmp/page")
    assert ran.out == "2\n", "inside the container it does write"


def test_the_escape_test_can_fail(lab: Lab) -> None:
    """The same search finds a file that the container does have."""
    content = "c2VjcmV0MQ=="  # secret1
    pod = lab.start(
        "findable",
        "python:3.12-alpine",
        command=("sleep", "3600"),
        files={"/probe/planted-secret1": content},
    )
    ran = lab.exec(
        pod, "python3", "-c", ESCAPES, json.dumps(["/probe/planted-secret1"]), "secret1"[::-1]
    )
    found = json.loads(ran.out)["found"]
    assert "plain: read /probe/planted-secret1" in found
    assert "walk: /probe/planted-secret1" in found
