# SPDX-License-Identifier: Apache-2.0
"""Reports the result of each step of a client's program as one line of JSON.

The programs run in environments of their own, so this module uses only the standard library.
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
"""How a step ends. WRONG: an answer that a real cluster would not give. HIDDEN: a refusal of
which the client hides the lab's message."""


def step(name: str, action: Callable[[], Any]) -> None:
    """Run one step and print how it ended; a failed assertion means that the lab's answer was wrong."""
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
    """Return what a user of the client can read of an error."""
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
