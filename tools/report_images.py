# SPDX-License-Identifier: Apache-2.0
"""Take the pictures of the report page that README and docs/release-qualification.md show.

``python -m tools.report_images FOLDER`` uses the runs that ``python -m tools.report_runs FOLDER``
has made: a whole run on a healthy lab, a run on a lab with four faults, a run with a dead node, and
a run beside a default deny of another owner. It renders their pages again, and the matrix page of
all runs, and writes ``docs/images``. If a run is missing, its pictures stay as they are. The script
needs Chromium, which it controls by the debugging port on loopback. Look at each picture before you
commit it. Allure's (``allure.png``) is taken too if ``python -m conformance.report.html
FOLDER/violated/latest`` has made ``allure.html``.
"""

import base64
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from websocket import WebSocket, create_connection

from tools.report_runs import RUNS

IMAGES = Path(__file__).parents[1] / "docs" / "images"
PICTURES = (
    ("report", "violated", 1280, 900, {}),
    (
        "report-dark",
        "violated",
        1280,
        900,
        {"features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    ),
    ("report-phone", "violated", 420, 1100, {}),
    ("report-healthy", "healthy", 1280, 900, {}),
    ("report-print", "healthy", 704, 1000, {"media": "print"}),
    ("report-dead-node", "dead", 1280, 900, {}),
    ("report-default-deny", "denied", 1280, 900, {}),
    ("matrix", "matrix", 1280, 900, {}),
    ("allure", "allure", 1400, 1250, {}),
)
"""Name, page, width and height in pixels, and the emulated media of the browser. A sheet of A4 is
704 pixels wide."""


class Tab:
    """The only page of a browser."""

    def __init__(self, address: str) -> None:
        self._socket: WebSocket = create_connection(address, suppress_origin=True, timeout=60)
        self._asked = 0

    def ask(self, method: str, **parameters: Any) -> Any:
        """Send a command of the debugging protocol and return its answer."""
        self._asked += 1
        self._socket.send(json.dumps({"id": self._asked, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv())
            if answer.get("id") == self._asked:
                return answer["result"]

    def picture(self, page: Path, width: int, height: int, media: dict[str, Any]) -> bytes:
        """Return the top of a page as a PNG."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.ask("Emulation.setEmulatedMedia", **media)
        self.ask("Page.navigate", url=page.as_uri())
        told = {"expression": "document.readyState", "returnByValue": True}
        while self.ask("Runtime.evaluate", **told)["result"]["value"] != "complete":
            time.sleep(0.1)
        if media.get("media") == "print":
            self.ask("Runtime.evaluate", expression="dispatchEvent(new Event('beforeprint'))")
        time.sleep(0.5)
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])


def address(profile: Path) -> str:
    """Wait until the browser reports the address of its debugging port, and return the address."""
    told = profile / "DevToolsActivePort"
    while not told.exists() or "\n" not in told.read_text():
        time.sleep(0.1)
    port = told.read_text().splitlines()[0]
    with urlopen(f"http://127.0.0.1:{port}/json") as answer:
        return next(
            one["webSocketDebuggerUrl"] for one in json.load(answer) if one["type"] == "page"
        )


def conformance(*arguments: str) -> None:
    """Run a ``calico-conformance`` command on reports."""
    subprocess.run([sys.executable, "-m", "conformance.cli", *arguments], check=True)


def main() -> None:
    """Take the pictures of all runs that exist."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    runs = [path / "latest" for path in sorted(Path(sys.argv[1]).iterdir()) if path.name in RUNS]
    chromium = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if chromium is None:
        raise SystemExit("there is no Chromium on the PATH")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        pages = {run.parent.name: run / "report.html" for run in runs}
        for run in runs:
            conformance("show", str(run), "--html", str(run / "report.html"))
        pages["matrix"] = Path(profile) / "matrix.html"
        conformance("matrix", *map(str, runs), "--html", str(pages["matrix"]))
        pages["allure"] = pages.get("violated", Path(profile)).with_name("allure.html")
        quiet = ("gpu", "background-networking", "component-update", "sync")
        options = (
            "--headless",
            "--no-sandbox",
            "--no-first-run",
            "--hide-scrollbars",
            "--remote-debugging-port=0",
        )
        browser = subprocess.Popen(
            [chromium, *options, *(f"--disable-{one}" for one in quiet), f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            tab = Tab(address(Path(profile)))
            for name, of, width, height, media in PICTURES:
                if not (page := pages.get(of, Path("-")).resolve()).exists():
                    continue
                (IMAGES / f"{name}.png").write_bytes(tab.picture(page, width, height, media))
                print(IMAGES / f"{name}.png")
        finally:
            browser.terminate()
            browser.wait()


if __name__ == "__main__":
    main()
