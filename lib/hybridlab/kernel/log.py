# SPDX-License-Identifier: Apache-2.0
"""The log of a process of the lab: limited, with repeated messages counted.

The caller that starts a lab keeps its log: a defect that is logged thousands of times a second must
not fill the disk.
"""

import logging
import re
import sys

from hybridlab.kernel import open_files

TIMES = 10
"""How often a message is written in full; further repetitions are only counted."""
SIZE = 8 << 20
"""The maximum number of bytes that a process writes; a lab has two processes that log."""
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")


class BoundedHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to standard error. Messages that differ only in numbers count as the same message."""

    def __init__(self, prefix: str) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter(f"{prefix} %(levelname)s %(name)s: %(message)s"))
        self._times: dict[str, int] = {}
        self._left = SIZE

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and open_files.notice(record.exc_info[1]):
            return  # the listeners end the lab, with a message of their own
        text = self.format(record)
        alike = _NUMBERS.sub("#", text)
        times = self._times.get(alike, 0) + 1
        if times > 1 or self._left > 0:
            self._times[alike] = times
        if times <= TIMES:
            self._write(text)
        elif str(times).strip("0") == "1":
            self._write(_repeated(alike, times))

    def close(self) -> None:
        """Write how often each message was repeated."""
        for alike, times in self._times.items():
            if times > TIMES:
                self.stream.write(f"{_repeated(alike, times)}\n")
        self._times.clear()
        super().close()

    def _write(self, text: str) -> None:
        if self._left > 0:
            self._left -= len(text) + 1
            full = f"this log is full ({SIZE >> 20} MB); further lines only count repetitions"
            self.stream.write(f"{text if self._left > 0 else full}\n")
            self.flush()


def _repeated(alike: str, times: int) -> str:
    return f"repeated {times - TIMES:,} more times: {alike.partition(chr(10))[0]}"


def begin(prefix: str) -> None:
    """Log warnings and worse to standard error from now on."""
    logging.basicConfig(handlers=[BoundedHandler(prefix)])
