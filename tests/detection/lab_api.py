# SPDX-License-Identifier: Apache-2.0
"""A client of a running lab's API, by which detection rows change the lab."""

from __future__ import annotations

import base64
import json
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import yaml

ANSWER_WITHIN = 20.0
"""s. A limit that only a hanging server exceeds."""


class Api:
    """Plain requests to a lab."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        plain = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        cluster, user = plain["clusters"][0]["cluster"], plain["users"][0]["user"]
        self._server, self._token = cluster["server"], user["token"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)

    def __call__(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> Any:
        """Send one request and return the decoded answer. Raise HTTPError."""
        with self._open(method, path, body, kind) as answer:
            return json.load(answer)

    def merge(self, path: str, body: Any) -> Any:
        """Send a merge patch."""
        return self("PATCH", path, body, "application/merge-patch+json")

    def watch(self, path: str, stop: threading.Event) -> Iterator[Any]:
        """Yield existing and added objects until ``stop`` is set."""
        while not stop.is_set():
            with self._open("GET", f"{path}?watch=true&timeoutSeconds=2") as answer:
                for line in answer:
                    event = json.loads(line)
                    if event["type"] == "ADDED":
                        yield event["object"]

    def _open(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> Any:
        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": kind,
            "Accept": "application/json",
        }
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self._server}{path}", data=data, headers=headers, method=method
        )
        return urllib.request.urlopen(request, timeout=ANSWER_WITHIN, context=self._tls)


def is_there(api: Api, path: str, uid: str) -> bool:
    """Return whether the object at a path still has this uid. Raise HTTPError for any error but
    404."""
    try:
        return bool(api("GET", path)["metadata"]["uid"] == uid)
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        return False


@contextmanager
def beside(work: Callable[[threading.Event], object]) -> Iterator[None]:
    """Run ``work`` in a thread during the block. It gets an event that is set at the block's end;
    its error is raised then."""
    stop, errors = threading.Event(), []

    def run() -> None:
        try:
            work(stop)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="edits during the run")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)
    if errors:
        raise errors[0]


def on_each(api: Api, path: str, do: Callable[[Any], object]) -> AbstractContextManager[None]:
    """Call ``do`` once for every object, as soon as the object exists."""

    def work(stop: threading.Event) -> None:
        seen = set()
        for obj in api.watch(path, stop):
            if obj["metadata"]["uid"] not in seen:
                seen.add(obj["metadata"]["uid"])
                do(obj)

    return beside(work)
