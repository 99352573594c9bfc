# SPDX-License-Identifier: Apache-2.0
"""Published policies of other projects, tried with ``calico-conformance policy``: no file may cause
a traceback, and no policy may be ignored silently.

``python -m tests.golden.public_policies [--repositories FOLDER | --mirror ADDRESS]`` fetches the
repositories at the commits that public-policies.tsv names, and reads the files there; no copy is
kept here. ``FOLDER`` may already have their git directories, as ``OWNER+NAME``. ``ADDRESS`` is the
place from which ``OWNER/NAME`` is fetched, such as ``file:///srv/mirror``.

Inputs are all YAML files, and all fenced blocks of pages with YAML or with a shell command that has
YAML. Each is tried together with three pods of ours. Answers and refusals are counted and compared
with the table, whose columns are repository, commit, path, texts with a policy, and how many of
these are answered. ``--write`` writes the table again, for the same repositories and commits.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path

from conformance.cli import main as command

TABLE = Path(__file__).with_name("public-policies.tsv")
FENCED = re.compile(r"^[ \t]*```[ \t]*(\w*)[^\n]*\n(.*?)^[ \t]*```", re.S | re.M)
PASSED_ON = re.compile(r"<<-?[ \t]*[\"']?(\w+)[\"']?[^\n]*\n(.*?)^[ \t]*\1[ \t]*$", re.S | re.M)
"""Matches a shell's here-document."""
SHELLS = ("", "bash", "sh", "shell", "console")
POLICY = re.compile(r"^[ \t-]*[\"']?kind[\"']?:[ \t]*[\"']?(\w*(?:Policy|PolicyList|Tier))\b", re.M)
STARTS = re.compile(r"\s*(?:apiVersion|kind|---)\b")
ROOTS = {
    "tigera/docs": ("calico/", "calico-enterprise/"),
    "projectcalico/calico": ("app-policy/", "hack/", "process/"),
}
"""Map repositories to the folders that are read; other repositories are read whole."""
MOST_OF_A_LINE = 600
PODS = """
- apiVersion: v1
  kind: Pod
  metadata: {name: win, namespace: default, labels: {app: web, role: db}}
  spec: {os: {name: windows}, containers: [{name: c}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: lin, namespace: default, labels: {app: api}}
  spec: {os: {name: linux}, containers: [{name: c}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: lin, namespace: prod, labels: {role: client}}
  spec: {os: {name: linux}, containers: [{name: c}]}
"""
Row = tuple[str, str, str, int, int]


class NotFetched(Exception):
    """Git could not fetch or show something; the message is git's own."""


def git(folder: Path, *arguments: str) -> str:
    """Run git and return its output."""
    done = subprocess.run(
        ["git", f"--git-dir={folder}", *arguments], check=False, capture_output=True
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason"]
        raise NotFetched(f"git {' '.join(arguments)[:120]}: {said[-1]}")
    return done.stdout.decode(errors="replace")


def folder_of(repository: str, commit: str, folder: Path, mirror: str) -> Path:
    """Return the git directory of a repository, and fetch it if it is missing; file contents are
    fetched when they are read."""
    found = folder / repository.replace("/", "+")
    if (found / "repo").is_dir():
        return found / "repo"
    if not found.is_dir():
        git(found, "init", "--bare", "--quiet")
        git(found, "remote", "add", "origin", f"{mirror.rstrip('/')}/{repository}")
    git(found, "fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", commit)
    return found


def texts(content: str, path: str) -> list[str]:
    """Return the texts in a file that contain a policy."""
    found = [content] if path.endswith((".yaml", ".yml")) else list(_fenced(content))
    return [text for text in found if POLICY.search(text)]


def _fenced(page: str) -> Iterator[str]:
    for language, block in FENCED.findall(page):
        if language in ("yaml", "yml"):
            yield block
        elif language in SHELLS:
            passed = [text for _, text in PASSED_ON.findall(block)]
            yield from passed or ([block] if STARTS.match(block) else [])


def paths(folder: Path, repository: str, commit: str) -> Iterator[str]:
    """Yield the paths of files that may contain a policy."""
    listed = git(
        folder,
        "grep",
        "-lE",
        'kind: *"?[A-Za-z]*(Policy|Tier)',
        commit,
        "--",
        "*.y*ml",
        "*.md",
        "*.mdx",
    )
    for line in listed.splitlines():
        path = line.partition(":")[2]
        if path.startswith(ROOTS.get(repository, ("",))):
            yield path


def asked(text: str, folder: Path) -> tuple[bool, str]:
    """Return whether a text is answered, and the errors in the answer or the refusal."""
    file, pods = folder / "policy.yaml", folder / "pods.yaml"
    file.write_text(text)
    pods.write_text("apiVersion: v1\nkind: List\nitems:" + PODS)
    out, error = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            code = command(["policy", str(pods), str(file)])
    except Exception:
        return False, traceback.format_exc().splitlines()[-1]
    said = error.getvalue()
    if code not in (0, 4) or said.count("\n") > 1 or len(said) > MOST_OF_A_LINE:
        return False, f"exit code {code}: {said[:200]}"
    return code == 0, ""


def rows() -> list[Row]:
    """Return the rows of the table."""
    listed = (line.split("\t") for line in TABLE.read_text().splitlines())
    return [(repo, commit, path, int(all_), int(read)) for repo, commit, path, all_, read in listed]


def tried(
    repository: str, commit: str, path: str, folder: Path, scratch: Path
) -> tuple[Row, list[str]]:
    """Return a row with its present figures, and the problems that were found."""
    found = texts(git(folder, "show", f"{commit}:{path}"), path)
    results = [asked(text, scratch) for text in found]
    wrong = [
        f"{repository} {path}, text {place}: {why}"
        for place, (_, why) in enumerate(results, 1)
        if why
    ]
    return (repository, commit, path, len(found), sum(read for read, _ in results)), wrong


def main() -> int:
    """Try all files; print the differences from the table, and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repositories", type=Path, help="where their git directories are")
    parser.add_argument("--mirror", default="https://github.com", metavar="ADDRESS")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    known = rows()
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made)
        now, wrong = [], []
        for repository, commit in dict.fromkeys(row[:2] for row in known):
            folder = folder_of(repository, commit, options.repositories or scratch, options.mirror)
            mine = [row[2] for row in known if row[:2] == (repository, commit)]
            for path in paths(folder, repository, commit) if options.write else mine:
                row, why = tried(repository, commit, path, folder, scratch)
                now += [row] if row[3] else []
                wrong += why
    if options.write:
        TABLE.write_text("".join("\t".join(map(str, row)) + "\n" for row in now))
    else:
        wrong += [
            f"{new[0]} {new[2]}: {new[4]} of {new[3]} are answered, in the table {old[4:2:-1]}"
            for old, new in zip(known, now, strict=True)
            if old != new
        ]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(
        f"{len(now)} files, {sum(row[3] for row in now)} texts: "
        f"{sum(row[4] for row in now)} answered, "
        f"the others refused in one line; {len(wrong)} wrong"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NotFetched as problem:
        sys.exit(str(problem))
