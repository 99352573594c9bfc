# SPDX-License-Identifier: Apache-2.0
"""The report of a client's program: one line of JSON for each step.

Each program runs in an environment of its own, so this module uses only the standard library.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable
from typing import Any

WORKS, WRONG, REFUSED, HIDDEN, OWN_FAULT = (
    "works",
    "wrong",
    "refused by name",
    "refused",
    "the client's own fault",
)
"""The possible ends of a step. WRONG: an answer that a real cluster would not give. HIDDEN: a
refusal that does not contain the lab's word."""


def step(name: str, action: Callable[[], Any]) -> None:
    """Run a step and print its end; a failed assertion means that the lab's answer was wrong."""
    try:
        action()
        report(name, WORKS)
    except AssertionError as error:
        report(name, WRONG, str(error) or traceback.format_exc(limit=1).splitlines()[-2].strip())
    except BaseException as error:
        text = words_of(error)
        said = re.search(r"not emulated: [^\"/]*", text)
        report(name, REFUSED if said else HIDDEN, said[0] if said else text)


def words_of(error: BaseException) -> str:
    """Return the part of an error that a user of the client can read."""
    parts: list[str] = []
    found: BaseException | None = error
    while found is not None:
        body = getattr(found, "body", "")
        parts.append(
            f"{type(found).__name__}: {found} {body if isinstance(body, str) else ''}".strip()
        )
        found = found.__cause__
    return " / ".join(parts)


def report(name: str, result: str, said: str = "") -> None:
    print(
        json.dumps({"step": name, "result": result, "said": " ".join(said.split())[:400]}),
        flush=True,
    )
