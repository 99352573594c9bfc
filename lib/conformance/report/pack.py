# SPDX-License-Identifier: Apache-2.0
"""An archive of a run, to attach to an issue: the run's files, without secrets and without paths of
the machine on which the run took place.

Only files that are known to be useful are packed; all other files are left out and listed. Captured
packets are packed unchanged, since they belong to the suite's own pods.
"""

import json
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conformance import scrubbing
from conformance.scrubbing import HIDDEN

TEXTS = frozenset((".json", ".txt", ".yaml", ".xml", ".html", ".log", ".properties"))
PACKETS = ".pcap"
LEFT_OUT = frozenset((".run", "allure.html"))
"""Names that are left out: files that the run's processes share, and files that can be made again
from the packed files and are 20 times as large."""
_KUBECONFIG = re.compile(
    r"client-key-data|client-certificate-data|^kind: Config$|\"kind\": ?\"Config\"", re.MULTILINE
)
_ROOT = r"/(?:(?<![\w.<-]/)|(?<=\\[nrt]/))"
"""Matches the beginning of a path, but neither a slash within a longer path nor a slash in an HTML
tag. It also matches after a line ending in JSON, which is two characters."""
_HOMES = re.compile(
    rf"{_ROOT}(?:home/|Users/|root/|tmp/|var/tmp/|var/folders/|private/)[^\s\"'<>\\,;:)]+"
)
_ADDRESS = re.compile(r"https?://[^\s,\"]+")


def pack(run: Path, archive: Path, machine: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Write the archive, whole or not at all. Return the names of the run's files in the archive,
    and the names of files that are left out.

    ``machine``: folders of this machine to remove from texts, in addition to the run's own folders
    and the usual home directories. Raise OSError.
    """
    facts = json.loads((run / "conformance.json").read_text(encoding="utf-8"))["run"]
    words = private(facts, (*machine, run.absolute(), run.resolve(), run.resolve().parent))
    files = list(_files(run))  # listed before the archive exists, which may lie in the same folder
    inside: list[str] = []
    left_out: list[str] = []
    try:
        with tempfile.NamedTemporaryFile(dir=archive.resolve().parent, delete=False) as file:
            fresh = Path(file.name)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(archive)) from None  # which the user named
    try:
        with zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as whole:
            for path in files:
                name = path.relative_to(run).as_posix()
                body = _body(path, words)
                (left_out if body is None else inside).append(name)
                if body is not None:
                    whole.writestr(f"{run.resolve().name}/{scrubbed(name, words)}", body)
        fresh.replace(archive)
    finally:
        fresh.unlink(missing_ok=True)
    return inside, left_out


def home() -> Path:
    """Return the user's home; ``/`` for a container's user without a home."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def copy(folder: Path, to: Path, words: Sequence[str]) -> None:
    """Copy the files of a folder that users may pass on, scrubbed as by :func:`pack`, into a new
    folder."""
    for path in _files(folder):
        if (body := _body(path, words)) is not None:
            there = to / path.relative_to(folder)
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(body)


def private(run: Mapping[str, Any], machine: Sequence[Path]) -> list[str]:
    """Return the words (paths, addresses of API servers) in a run's command and cluster that
    identify its machine, the longest first.

    ``run``: the field ``run`` of ``conformance.json``; ``machine``: further folders.
    """
    label = str((run.get("cluster") or {}).get("label") or "")
    paths = re.findall(r"(?:=|\s|^)(/[^\s,'\"]+)", f"{run['command']} {label}")
    folders = {str(path) for path in (*machine, *map(Path, paths))} - {"/"}
    return sorted((*_ADDRESS.findall(label), *folders), key=len, reverse=True)


def scrubbed(text: str, words: Sequence[str] = ()) -> str:
    """Return a text without possible secrets and paths of a machine. ``words``: further words to
    remove.
    """
    text = scrubbing.scrubbed(text)
    for word in words:
        if word in text and not word.startswith("/"):
            text = text.replace(word, HIDDEN)
        elif word in text:
            here = f"(here)/{word.rpartition('/')[2]}".replace("\\", r"\\")
            text = re.sub(rf"{_ROOT}{re.escape(word[1:])}(?![\w-])", here, text)
    return _HOMES.sub(lambda found: f"(here)/{found[0].rstrip('/').rpartition('/')[2]}", text)


def _files(run: Path) -> Iterator[Path]:
    """Yield every file, in order, except files in folders that are left out."""
    for path in sorted(run.iterdir()):
        if path.is_dir() and not path.is_symlink() and path.name not in LEFT_OUT:
            yield from _files(path)
        elif not path.is_dir() or path.is_symlink():
            yield path


def _body(path: Path, words: Sequence[str]) -> bytes | None:
    """Return a file's content for the archive; None if the file is left out."""
    if path.name in LEFT_OUT or path.is_symlink():
        return None
    if path.suffix == PACKETS:
        return path.read_bytes()
    if path.suffix not in TEXTS:
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    return None if _KUBECONFIG.search(text) else scrubbed(text, words).encode("utf-8")
