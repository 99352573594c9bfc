# SPDX-License-Identifier: Apache-2.0
"""The identification of a script file as a probe program: by its protocol line and its SHA-256,
never only by its name."""

import hashlib
import json
import re
from dataclasses import dataclass
from importlib import resources

PROTOCOL_LINE = re.compile(rb"\A#\s*probe-protocol:\s*(\d+)\s*?\r?\n")
PROTOCOL = 2
"""The version of docs/probe-protocol.md that is emulated."""


@dataclass(frozen=True)
class Program:
    """A recorded program."""

    name: str
    sha256: str


class NotRecorded(Exception):
    """The file has the protocol line but is no recorded program; the message explains how to record
    it."""


def speaks_protocol(content: bytes) -> bool:
    """Return whether a script begins with the protocol line."""
    return PROTOCOL_LINE.match(content) is not None


def identify(path: str, content: bytes) -> Program:
    """Return the recorded program that this file is.  Raise NotRecorded."""
    match = PROTOCOL_LINE.match(content)
    version = match.group(1).decode() if match else "none"
    if version != str(PROTOCOL):
        raise NotRecorded(
            f"{path}: its probe protocol is {version}, but the lab emulates {PROTOCOL}"
        )
    found = hashlib.sha256(content).hexdigest()
    for name, sha256 in table().items():
        if sha256 == found:
            return Program(name, found)
    raise NotRecorded(
        f"{path}: its SHA-256 {found[:12]}... is not recorded, so the lab does not know what it does; "
        "compare it with docs/probe-protocol.md and record it in hybridlab/probe_programs/recorded.json"
    )


def table() -> dict[str, str]:
    """Return each program's SHA-256 by the program's name. Each SHA-256 was recorded after the
    program was compared with docs/probe-protocol.md."""
    text = resources.files("hybridlab.probe_programs").joinpath("recorded.json").read_text()
    return {str(name): str(sha256) for name, sha256 in json.loads(text).items()}
