# SPDX-License-Identifier: Apache-2.0
"""The image table: which images exist, for which system and Windows builds, and what their commands
are.

The data is in ``images.yaml`` in this folder; the comment at its beginning explains the format.
This module runs no command.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from hybridlab.runtime.model import OS, ImageFacts

HOST_BUILDS = (17763, 18362, 18363, 19041, 19042, 20348, 25398, 26100)
"""The Windows Server builds of hosts that clusters use; 25398 is the annual channel 23H2."""
_LTSC = (20348, 26100)
_ANY_BUILD = 0


@dataclass(frozen=True)
class Command:
    """The implementation of an image's command."""

    kind: Literal["applet", "program", "not_emulated"]
    target: str
    """The applet's or program's name."""


@dataclass(frozen=True)
class Image:
    """A row of the image table."""

    name: str
    os: tuple[OS, ...]
    repositories: tuple[str, ...]
    tags: Mapping[str, tuple[int, ...]]
    entrypoint: tuple[str, ...]
    cmd: tuple[str, ...]
    commands: Mapping[str, Command]
    env: Mapping[str, str]
    programs: frozenset[str]
    """Names of real programs that a shell in the container finds, including those for which exec
    runs an applet."""
    python: bool
    """The container has a real Python interpreter in /usr/local."""

    def command(self, argv0: str, system: OS) -> Command | None:
        """Return the command of ``argv0``; its directory and, on Windows, case and ``.exe`` do not
        matter. None: there is no such file."""
        name = re.split(r"[\\/]", argv0)[-1] if system == "windows" else argv0.rsplit("/", 1)[-1]
        if system == "windows":
            name = name.lower().removesuffix(".exe")
        return self.commands.get(name)

    def argv(self, command: tuple[str, ...], args: tuple[str, ...]) -> tuple[str, ...]:
        """Return a container's command line: ``command`` replaces entrypoint and cmd, ``args``
        replaces cmd, like in Kubernetes."""
        return command + args if command else self.entrypoint + (args or self.cmd)


@dataclass(frozen=True)
class Found:
    """An image reference that the table contains."""

    reference: str
    image: Image
    builds: tuple[int, ...]


def runnable_on(container_builds: Iterable[int]) -> tuple[int, ...]:
    """Return the host builds that run one of these container builds under process isolation.

    The rule of hcsshim and containerd: below 20348 the builds must be equal; from 20348 on, the
    container may be as old as the previous long-term release. 0 stands for HostProcess images,
    which every host runs.
    """
    builds = set(container_builds)
    if _ANY_BUILD in builds:
        return HOST_BUILDS
    return tuple(host for host in HOST_BUILDS if any(_oldest(host) <= b <= host for b in builds))


def _oldest(host: int) -> int:
    return max((ltsc for ltsc in _LTSC if ltsc < host), default=host)


def split_reference(reference: str) -> tuple[str, str]:
    """Return the repository without tag and digest, and the tag (``latest`` if there is
    neither)."""
    repository, _, digest = reference.partition("@")
    head, slash, last = repository.rpartition("/")
    name, _, tag = last.partition(":")
    return head + slash + name, tag or ("latest" if not digest else "*")


@cache
def table() -> tuple[Image, ...]:
    """Return all images, in the order of the file."""
    # The C loader is ten times faster, but exists only if libyaml is installed.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    document = yaml.load((Path(__file__).parent / "images.yaml").read_text(), Loader=loader)
    return tuple(_image(row) for row in document["images"])


def find(reference: str) -> Found | None:
    """Return the image of a reference; None when no registry has it."""
    repository, tag = split_reference(reference)
    for image in table():
        if not any(f"/{repository}".endswith(f"/{end}") for end in image.repositories):
            continue
        for pattern, builds in image.tags.items():
            if tag == "*" or fnmatchcase(tag, pattern):
                return Found(reference, image, builds)
    return None


def facts(reference: str) -> ImageFacts:
    """Return the facts about an image that a kubelet learns when it pulls the image."""
    found = find(reference)
    if found is None:
        return ImageFacts(reference=reference, os=(), known=False)
    systems = (
        found.image.os if found.builds else tuple(os for os in found.image.os if os == "linux")
    )
    return ImageFacts(reference=reference, os=systems, windows_builds=runnable_on(found.builds))


def _image(row: dict[str, Any]) -> Image:
    unknown = row.keys() - {
        "name",
        "os",
        "repositories",
        "tags",
        "entrypoint",
        "cmd",
        "applets",
        "programs",
        "not_emulated",
        "env",
        "python",
    }
    if unknown:
        raise ValueError(
            f"images.yaml: image {row.get('name')}: unknown key {', '.join(sorted(unknown))}"
        )
    commands: dict[str, Command] = {}
    for name in _flat(row.get("not_emulated", [])):
        commands[name.lower().removesuffix(".exe") if "." in name else name] = Command(
            "not_emulated", name
        )
    for name in _flat(row.get("programs", [])):
        commands[name] = Command("program", name)
    if row.get("python"):
        for name in ("python", "python3"):
            commands[name] = Command("program", name)
    applets = row.get("applets", [])
    if isinstance(applets, dict):
        commands |= {name: Command("applet", value["applet"]) for name, value in applets.items()}
    else:
        commands |= {name: Command("applet", name) for name in _flat(applets)}
    return Image(
        name=row["name"],
        os=tuple(row.get("os", ("linux",))),
        repositories=tuple(row["repositories"]),
        tags={str(tag): tuple(builds) for tag, builds in row["tags"].items()},
        entrypoint=tuple(row.get("entrypoint", ())),
        cmd=tuple(row.get("cmd", ())),
        commands=commands,
        env={name: str(value) for name, value in row.get("env", {}).items()},
        programs=frozenset(_flat(row.get("programs", []))),
        python=bool(row.get("python")),
    )


def _flat(names: list[Any]) -> list[str]:
    out: list[str] = []
    for name in names:
        out.extend(_flat(name) if isinstance(name, list) else [str(name)])
    return out
