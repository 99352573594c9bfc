# SPDX-License-Identifier: Apache-2.0
"""One archive of a run, to attach to an issue: what the run left, without secrets and without paths of its machine.

What is known to be wanted goes in, everything else stays out and is named.  Packets go in as they are: they are those
of the suite's own pods.
"""

import json
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

TEXTS = frozenset((".json", ".txt", ".yaml", ".xml", ".html", ".log", ".properties"))
PACKETS = ".pcap"
LEFT_OUT = frozenset((".run", "allure.html"))
"""Names that stay out: of the run's processes; made from what is in, and 20 times as large."""
HIDDEN = "(removed)"
_KUBECONFIG = re.compile(
    r"client-key-data|client-certificate-data|^kind: Config$|\"kind\": ?\"Config\"", re.MULTILINE
)
_NAMED = (
    r"(?i:\b\w{0,40}?(?:password|passwd|token|secret|private[-_.]?key|api[-_.]?key|access[-_.]?key|key-data"
    r"|certificate-data|ca-data|authority-data|client-key|caBundle|tls\.key|tls\.crt|ca\.crt))"
)
_QUOTE = r"(?:\\*(?:[\"']|&#3[49];|&quot;))?"
"""As JSON, HTML and JSON within them write it."""
_HINTS = ("pass", "token", "secret", "key", "-data", "cabundle", ".crt")
"""One of these is in every such name: to look for them first is ten times as quick."""
_GAP = r"(?:\s|\\+[nr]|&#1[03];)"
_SECRETS = tuple(
    re.compile(pattern)
    for pattern in (
        (
            r"-----BEGIN [A-Z0-9 ]+-----(?:[^\"'<]{0,8000}?-----END [A-Z0-9 ]+-----"
            rf"|(?:{_GAP}+[A-Za-z0-9+/=]{{16,}})*)"
        ),  # the second of one that was cut off
        r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]*",  # the same in base64
        r"eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?",  # a JSON web token
        r"ZXlK[A-Za-z0-9+/=]{20,}",  # the same in base64
        r"sha256~[\w-]{20,}",  # OpenShift's
        r"(?:(?<![a-z0-9])|(?<=\\n))[a-z0-9]{6}\.[a-z0-9]{16}(?![a-z0-9])",  # kubeadm's
        r"(?:AKIA|ASIA)[0-9A-Z]{16}\b",
        r"(?:gh[pousr]|github_pat|glpat)[_-]\w{20,}",
        r"(?<=://)[^/\s:@\"]+:[^/\s@\"]+(?=@)",
        r"(?<=[Bb]earer )[\w.~+/=-]{8,}",
        r"(?<=[Bb]asic )[A-Za-z0-9+/=]{8,}",
    )
)
_VALUE = re.compile(
    rf"({_NAMED}{_QUOTE}\s*[:=]\s*{_QUOTE})(?!null|true|false)([^\s\"'\\,;}}\])&<{{\[(]{{6,}})"
)
"""A name that says that its value is secret, and the value; what is shorter than six characters is none."""
_VARIABLE = re.compile(
    rf"(name{_QUOTE}: ?{_QUOTE}{_NAMED}{_QUOTE},?(?:{_GAP}|-)*{_QUOTE}value{_QUOTE}: ?{_QUOTE})([^\s\"'\\,}}&<]+)"
)
"""The same of an environment variable of a container."""
_ROOT = r"/(?:(?<![\w.<-]/)|(?<=\\[nrt]/))"
"""Where a path begins: not within a longer one, nor in a tag of HTML; JSON writes the end of a line as two signs."""
_HOMES = re.compile(
    rf"{_ROOT}(?:home/|Users/|root/|tmp/|var/tmp/|var/folders/|private/)[^\s\"'<>\\,;:)]+"
)
_ADDRESS = re.compile(r"https?://[^\s,\"]+")


def pack(run: Path, archive: Path, machine: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Write the archive, whole or not at all.  Returns what of the run's directory is in it, and what is not.

    ``machine``: folders of this machine whose paths are removed, besides the run's own and the usual homes.
    Raises OSError.
    """
    told = json.loads((run / "conformance.json").read_text(encoding="utf-8"))["run"]
    words = private(told, (*machine, run.absolute(), run.resolve(), run.resolve().parent))
    files = list(_files(run))  # before the archive, which may lie among them
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


def copy(folder: Path, to: Path, words: Sequence[str]) -> None:
    """What of a folder may be handed on, as :func:`pack` has it, in a folder that is made."""
    for path in _files(folder):
        if (body := _body(path, words)) is not None:
            there = to / path.relative_to(folder)
            there.parent.mkdir(parents=True, exist_ok=True)
            there.write_bytes(body)


def private(run: Mapping[str, Any], machine: Sequence[Path]) -> list[str]:
    """What a run's command and cluster tell of its machine, the longest first: paths, addresses of API servers.

    ``run``: as in ``conformance.json``; ``machine``: more folders.
    """
    label = str((run.get("cluster") or {}).get("label") or "")
    paths = re.findall(r"(?:=|\s|^)(/[^\s,'\"]+)", f"{run['command']} {label}")
    folders = {str(path) for path in (*machine, *map(Path, paths))} - {"/"}
    return sorted((*_ADDRESS.findall(label), *folders), key=len, reverse=True)


def scrubbed(text: str, words: Sequence[str] = ()) -> str:
    """A text without what looks like a secret or a path of somebody's machine.  ``words``: more to remove."""
    lower = text.lower()
    if any(word in lower for word in _HINTS):
        text = _VALUE.sub(rf"\1{HIDDEN}", _VARIABLE.sub(rf"\1{HIDDEN}", text))
    for pattern in _SECRETS:
        text = pattern.sub(HIDDEN, text)
    for word in words:
        if word in text and not word.startswith("/"):
            text = text.replace(word, HIDDEN)
        elif word in text:
            here = f"(here)/{word.rpartition('/')[2]}".replace("\\", r"\\")
            text = re.sub(rf"{_ROOT}{re.escape(word[1:])}(?![\w-])", here, text)
    return _HOMES.sub(lambda found: f"(here)/{found[0].rstrip('/').rpartition('/')[2]}", text)


def _files(run: Path) -> Iterator[Path]:
    """Every file, in order, but for those of the folders that stay out."""
    for path in sorted(run.iterdir()):
        if path.is_dir() and not path.is_symlink() and path.name not in LEFT_OUT:
            yield from _files(path)
        elif not path.is_dir() or path.is_symlink():
            yield path


def _body(path: Path, words: Sequence[str]) -> bytes | None:
    """What goes into the archive; None: nothing does."""
    if path.name in LEFT_OUT or path.is_symlink():
        return None
    if path.suffix == PACKETS:
        return path.read_bytes()
    if path.suffix not in TEXTS:
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    return None if _KUBECONFIG.search(text) else scrubbed(text, words).encode("utf-8")
