# SPDX-License-Identifier: Apache-2.0
"""Fetch every source of ``clusters/*.yaml`` and compare it with the sum in its file.

Only git is used. It fetches the named commits of each repository without their history, and the
named files of these commits. Exit code 0: all agree; 1: a source has another sum; 2: a source could
not be fetched.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.unit.conformance.facts.platforms.served import Source, clusters

PROG = "python -m tests.unit.conformance.facts.platforms.sources"
HOST = "https://github.com"
SECONDS = 300.0
"""s. The time limit for one repository."""


@dataclass
class Compared:
    """The result of comparing some sources."""

    agree: int = 0
    differ: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """Sources that could not be fetched, each with the reason."""

    @property
    def code(self) -> int:
        """Return the exit code."""
        return 1 if self.differ else 2 if self.missing or not self.agree else 0

    def lines(self, place: str) -> list[str]:
        """Return lines about sources that differ or are missing, and a summary."""
        if self.missing and not (self.agree or self.differ):
            why = self.missing[0].partition(": ")[2]
            return [
                f"nothing was compared: none of {len(self.missing)} sources could be "
                f"fetched from {place} ({why}); "
                "run it where that can be reached, or name a folder of clones by --clones"
            ]
        told = (
            f"{self.agree} agree, {len(self.differ)} differ, {len(self.missing)} could not "
            f"be fetched"
        )
        return [*self.differ, *self.missing, told]


def compared(sources: Iterable[Source], read: Callable[[Source], bytes]) -> Compared:
    """Compare each source once; ``read`` raises SubprocessError if a file does not exist there."""
    found = Compared()
    for name, source in {(_named(one), one.sha256): one for one in sources}.items():
        try:
            text = read(source)
        except subprocess.SubprocessError as error:
            said = (getattr(error, "stderr", b"") or b"").decode(errors="replace").splitlines()
            fatal = next((line for line in said if line.startswith("fatal")), str(error))
            found.missing.append(f"{name[0]}: {fatal}")
            continue
        told = hashlib.sha256(text).hexdigest()
        if told != source.sha256:
            found.differ.append(f"{name[0]}: sha256 {told}, its file has {source.sha256}")
        else:
            found.agree += 1
    return found


def _named(source: Source) -> str:
    return f"{source.repository}@{source.commit}:{source.path}"


def cloned(folder: Path, source: Source) -> bytes:
    """Return a file of a clone in ``folder/OWNER/NAME``.  Raise SubprocessError."""
    return _git(folder / source.repository, "show", f"{source.commit}:{source.path}")


def fetched(scratch: Path, url: Callable[[str], str], source: Source) -> bytes:
    """Fetch the commit of a file into a folder below ``scratch``, and return the file.  Raise
    SubprocessError."""
    folder = scratch / source.repository
    if not folder.exists():
        folder.mkdir(parents=True)
        _git(folder, "init", "--quiet")
        _git(folder, "remote", "add", "origin", url(source.repository))
    _git(folder, "fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", source.commit)
    return cloned(scratch, source)


def _git(folder: Path, *arguments: str) -> bytes:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, check=True, timeout=SECONDS).stdout


def main(words: Sequence[str] | None = None) -> int:
    """Compare the sources of some clusters, or of all."""
    names = [one.name for one in clusters()]
    parser = argparse.ArgumentParser(PROG, description=__doc__.partition("\n")[0])
    parser.add_argument("cluster", nargs="*", help="file name without .yaml (default: all)")
    parser.add_argument(
        "--clones",
        metavar="FOLDER",
        type=Path,
        help=f"read clones in FOLDER/OWNER/NAME in place of {HOST}",
    )
    asked = parser.parse_args(words)
    if unknown := sorted({*asked.cluster} - {*names}):
        parser.error(f"no cluster {', '.join(unknown)}; there are {', '.join(names)}")
    wanted = [one for one in clusters() if not asked.cluster or one.name in asked.cluster]
    sources = [source for one in wanted for source in one.sources]
    with tempfile.TemporaryDirectory() as scratch:
        of_host = partial(fetched, Path(scratch), lambda repository: f"{HOST}/{repository}")
        found = compared(sources, partial(cloned, asked.clones) if asked.clones else of_host)
    print(*found.lines(str(asked.clones or HOST)), sep="\n")
    return found.code


if __name__ == "__main__":
    sys.exit(main())
