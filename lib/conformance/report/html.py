# SPDX-License-Identifier: Apache-2.0
"""``python -m conformance.report.html [RUN]``: ``allure.html``, one self-contained file from a
run's Allure results.

Calls Allure 3 (npm package ``allure``; no Java) from ``node_modules`` of the current folder or of
the checkout. An ``allure`` on the PATH is not used, since the older allure-commandline has the same
name.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.model.verdict import PRECEDENCE
from conformance.printing import say
from conformance.report.pack import copy, home, private

ROOT = Path(__file__).parents[3]
ENVIRONMENT_LACKS = 7
"""The exit code if Node.js or Allure is missing, as for everything else that a machine lacks."""
USAGE = 4
CLOSED = "default-src 'unsafe-inline' 'unsafe-eval' data: blob:"
"""The content security policy of a page that loads only its own content."""
RENDERED_WITHIN = 300.0
"""The time limit, in seconds, of Allure. Rendering 207 tests took 1.2 s on two cores; the rest is a
reserve for large runs on busy machines."""


class CannotRender(Exception):
    """The page cannot be rendered: a line for the user, and the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def command(folders: Sequence[Path]) -> list[str]:
    """Return the command of Allure 3. Raise CannotRender with the packages to install."""
    node = shutil.which("node")
    for folder in folders:
        script = folder / "node_modules" / "allure" / "cli.js"
        if node and script.is_file():
            return [node, str(script)]
    missing = "Allure 3 is not installed here" if node else "Node.js is not installed"
    first = "" if node else "install Node.js 20 or later, then: "
    raise CannotRender(
        f"no allure.html: {missing}; {first}npm install --no-save allure@3", ENVIRONMENT_LACKS
    )


def render(run: Path, call: Sequence[str]) -> Path:
    """Render ``allure.html`` in the run's folder and return its path. Raise CannotRender."""
    results = run / "allure"  # Allure renders a scrubbed copy, since users pass the page on
    if not any(results.glob("*-result.json")):
        raise CannotRender(f"no allure.html: {results} holds no Allure results", USAGE)
    with tempfile.TemporaryDirectory(prefix="allure-") as work:
        output = Path(work) / "html"
        configuration = Path(work) / "allurerc.json"
        shared = Path(work) / "results"
        details = {"command": ""} | _run_of_report(run)
        copy(
            results,
            shared,
            private(details, (home(), Path.cwd(), run.absolute(), run.resolve().parent)),
        )
        configuration.write_text(json.dumps(_configuration(run, output)))
        done = subprocess.run(
            [*call, "generate", str(shared), "--config", str(configuration)],
            cwd=work,
            capture_output=True,
            text=True,
            timeout=RENDERED_WITHIN,
            check=False,
        )
        page = next(iter(sorted(output.rglob("index.html"))), None)
        if done.returncode != 0 or page is None:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise CannotRender(
                f"no allure.html: Allure failed: {said[-1] if said else done.returncode}", 1
            )
        target = run / "allure.html"
        target.write_text(closed(page.read_text(encoding="utf-8")), encoding="utf-8")
    return target


def closed(page: str) -> str:
    """Return Allure's page without Google's code that counts readers. The page's own scripts wait
    until its data is loaded."""
    sealed = page.replace(
        "<head>", f'<head><meta http-equiv="Content-Security-Policy" content="{CLOSED}">', 1
    )
    return re.sub(r'<script(?=\s+src="data:)', "<script defer", sealed)


CATEGORIES = [
    {"name": str(verdict), "matchers": {"labels": {"verdict": str(verdict)}}}
    for verdict in PRECEDENCE
]
"""The categories: one for each verdict, matched by the label ``verdict`` of results."""


def _run_of_report(run: Path) -> dict[str, Any]:
    """Return the field ``run`` of the run's report; return an empty dict if there is no report, or
    if the report cannot be read."""
    try:
        return dict(json.loads((run / "conformance.json").read_text(encoding="utf-8"))["run"])
    except (OSError, ValueError, KeyError):
        return {}


def _configuration(run: Path, output: Path) -> dict[str, object]:
    lab = " (lab, qualifies no release)" if _run_of_report(run).get("evidence") == "lab" else ""
    return {
        "name": f"Calico for Windows, {run.resolve().name}{lab}",
        "categories": {"rules": CATEGORIES},
        "output": str(output),
        "historyPath": str(run.resolve().parent / "history.jsonl"),
        "plugins": {
            "awesome": {"options": {"singleFile": True, "groupBy": ["epic", "feature", "story"]}}
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Render the report and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance.report.html", description="Render a run as HTML."
    )
    parser.add_argument(
        "run",
        nargs="?",
        type=Path,
        default=ROOT / "reports" / "latest",
        help="default: %(default)s",
    )
    options = parser.parse_args(arguments)
    try:
        say(str(render(options.run, command([Path.cwd(), ROOT]))))
    except CannotRender as error:
        say(str(error), error=True)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
