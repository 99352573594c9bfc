# SPDX-License-Identifier: Apache-2.0
"""The container that runs next to the judge: it keeps the results until they are fetched, and sends
them.

Results are lines of text, since not every proxy passes an exec's binary output unchanged.
"""

import base64
import hashlib
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from conformance import product
from conformance.errors import UsageProblem
from conformance.report.pack import pack
from conformance.timing import SYSTEM_CLOCK, Clock, until

TAKEN = ".fetched"
"""The file in the folder of results whose existence lets the holder end."""
KEPT_FOR = 24 * 3600.0
"""Seconds for which results are kept after the report was written, or after the holder's start if
there is no report."""
LOOK_EVERY = 2.0
BYTES_A_LINE = 48 * 1024
"""The data in a line, in bytes. It is a multiple of 3, so that the lines of base64 can be
joined."""
END = b"end"


def hold(results: Path, clock: Clock = SYSTEM_CLOCK) -> None:
    """Wait until the results are fetched, or for 24 hours; SIGTERM ends the wait at once."""
    # without a handler, process 1 would ignore SIGTERM
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    begin = time.time()

    def over() -> bool:
        report = _report(results)
        since = max(begin, report.stat().st_mtime if report else begin)
        return (results / TAKEN).exists() or time.time() - since >= KEPT_FOR

    until(
        over,
        bool,
        within=float("inf"),
        every=LOOK_EVERY,
        description="the results are fetched",
        clock=clock,
    )


def release(results: Path) -> None:
    """Let the holder of this folder end."""
    results.mkdir(parents=True, exist_ok=True)
    (results / TAKEN).touch()


def sent(results: Path) -> Iterator[bytes]:
    """Yield the archive of the newest run as lines: its name, length and SHA-256 as JSON, base64,
    and an end. Raise UsageProblem if no run has left a report."""
    report = _report(results)
    if report is None:
        raise UsageProblem(f"no run has left a report in {results}")
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / f"{report.parent.name}.zip"
        pack(report.parent, archive, (product.root(), Path(sys.prefix)))
        body = archive.read_bytes()
    head = {"name": archive.name, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    yield json.dumps(head).encode()
    yield from (
        base64.b64encode(body[begin : begin + BYTES_A_LINE])
        for begin in range(0, len(body), BYTES_A_LINE)
    )
    yield END


def _report(results: Path) -> Path | None:
    """Return the report of the newest run in a folder; None if there is none yet."""
    return max(results.glob("20*/conformance.json"), default=None)
