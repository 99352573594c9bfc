# SPDX-License-Identifier: Apache-2.0
"""All processes of a run share one outage of the API server; an interrupted run sends only
requests that clean up."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conformance.errors import EnvironmentBroken
from conformance.journal.retry import retry
from conformance.kube import execute
from conformance.kube.access import from_kubeconfig
from conformance.kube.client import Kube
from conformance.kube.reach import NOBODY_ASKED, ApiGone, Reach
from conformance.kube.refused import ApiRefused, ApiUnreachable, describe
from conformance.kube.waits import Waits
from conformance.settings import load_timings
from conformance.timing import SystemClock
from tests.unit.conformance.kube.fake_api import FakeApi, kubeconfig, listing, status

PATIENCE = 10.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets seconds pass."""
    clock = [1000.0]
    monkeypatch.setattr("conformance.kube.reach.time.monotonic", lambda: clock[0])

    def passes(seconds: float) -> None:
        clock[0] += seconds

    return passes


def test_what_one_process_does_not_hear_counts_with_what_another_does_not(
    tmp_path: Path, now: Callable[[float], None]
) -> None:
    reach, other = (Reach(tmp_path, PATIENCE) for _ in range(2))
    reach.silent(1000.0, "refused")
    now(6)
    other.silent(1005.0, "refused")
    assert reach.gone == ""
    now(4)
    other.silent(1009.0, "[Errno 111] Connection refused")
    assert (
        reach.gone
        == other.gone
        == "the API server has not answered for 10 s: [Errno 111] Connection refused"
    )
    with pytest.raises(
        ApiGone, match=r"GET /x: not sent, since the API server has not answered for 10 s"
    ):
        reach.check("GET /x")


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_a_request_that_finds_no_open_file_left_ends_the_run_as_this_machines_lack(
    tmp_path: Path, number: int
) -> None:
    reach, other = Reach(tmp_path, PATIENCE), Reach(tmp_path)
    try:
        raise OSError(number, os.strerror(number))
    except OSError as error:
        wrapped = RuntimeError("Max retries exceeded")
        wrapped.__cause__ = error
    try:
        raise wrapped
    except RuntimeError:
        reach.silent(time.monotonic(), "no connection")
    assert other.ended.startswith(
        f"this machine allows too few open files ({os.strerror(number)}): a process may have "
    )
    assert other.unusable
    other.check("DELETE /x")  # clearing up may still ask


def test_a_request_that_fails_otherwise_ends_nothing(tmp_path: Path) -> None:
    reach = Reach(tmp_path, PATIENCE)
    try:
        raise ConnectionRefusedError(errno.ECONNREFUSED, "refused")
    except OSError:
        reach.silent(time.monotonic(), "refused")
    assert (reach.ended, reach.unusable, reach.gone) == ("", False, "")


def test_of_a_lab_that_is_gone_nothing_is_asked_any_more(tmp_path: Path) -> None:
    Reach(tmp_path).end("the lab ended: why", unusable=True, gone=True)
    with pytest.raises(ApiGone, match=r"^GET /x: not sent, since the lab ended: why$"):
        Reach(tmp_path).check("GET /x")


def test_an_answer_to_any_of_them_ends_the_silence(
    tmp_path: Path, now: Callable[[float], None]
) -> None:
    reach, other = (Reach(tmp_path, PATIENCE) for _ in range(2))
    reach.silent(1000.0, "refused")
    now(6)
    other.answered()
    reach.silent(1006.0, "refused")
    now(6)
    reach.silent(1011.0, "refused")
    assert reach.gone == ""


def test_two_hiccups_between_which_nobody_asked_are_no_silence(
    tmp_path: Path, now: Callable[[float], None]
) -> None:
    reach = Reach(tmp_path, PATIENCE)
    reach.silent(1000.0, "refused")
    now(NOBODY_ASKED + 5)
    reach.silent(1000.0 + NOBODY_ASKED + 4, "refused")
    assert reach.gone == ""


def test_its_absence_is_the_environments_fault_and_the_api_servers() -> None:
    assert issubclass(ApiGone, EnvironmentBroken)
    assert issubclass(ApiGone, ApiUnreachable)
    assert str(ApiGone("GET /x", "away")) == "GET /x: not sent, since away"
    assert ApiGone("GET /x", "away").cause == "away"


def test_a_cut_connection_is_described_by_its_own_words_alone() -> None:
    cut = ConnectionError("Remote end closed connection without response")
    assert describe(Exception("Connection aborted.", cut)) == str(cut)


@pytest.fixture
def api() -> Any:
    server = FakeApi()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def kube(api: Any, tmp_path: Path) -> Any:
    timings = replace(
        load_timings().run, api_connect=1.0, api_answer=5.0, api_retry=30.0, watch=60.0
    )
    client = Kube(
        from_kubeconfig(kubeconfig(tmp_path / "kubeconfig", api.url)),
        timings,
        reach=Reach(tmp_path, patience=0.5),
    )
    yield client
    client.close()


class Pauses(SystemClock):
    """Keeps for how long it was slept, each time."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        super().sleep(seconds)


def test_a_server_that_stays_away_ends_every_request_and_exec_after_one_patience(
    kube: Any, api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = Pauses()
    monkeypatch.setattr("conformance.kube.client.SYSTEM_CLOCK", pauses)
    api.stop()
    with pytest.raises(ApiGone):
        kube.objects("v1", "Pod", "n")
    before = list(pauses.seconds)
    assert before, "it was asked again"
    for ask in (
        lambda: kube.get("v1", "Pod", "x", "n"),
        lambda: list(kube.watch("v1", "Pod", "n", "1", seconds=30)),
        lambda: execute.run(kube, "n", "p", "c", ["true"], within=5),
        lambda: retry(
            lambda: kube.read("/version"), within=60, description="putting back", clock=pauses
        ),
        lambda: Waits(kube).pods_ready("n", "app=x", 1, within=60),
    ):
        with pytest.raises(ApiGone):
            ask()
    assert pauses.seconds == before, "nobody has a patience of its own after that"


@pytest.mark.parametrize(
    "answer", [status(500, "InternalError", "etcd"), status(403, "Forbidden", "no")]
)
def test_a_server_that_answers_whatever_it_is_has_not_gone(
    kube: Any, api: Any, answer: Any
) -> None:
    kube.timings = replace(kube.timings, api_retry=0.0)
    api.routes["GET /api/v1/namespaces/n/pods"] = answer
    for _ in range(4):
        with pytest.raises(ApiRefused):
            kube.objects("v1", "Pod", "n")
        time.sleep(0.2)
    assert kube.reach.gone == ""


def test_a_gateway_that_answers_in_its_place_is_silence(kube: Any, api: Any) -> None:
    kube.resource("v1", "Pod")
    api.routes["GET /api/v1/namespaces/n/pods"] = (503, b"no healthy upstream")
    with pytest.raises(ApiGone, match="no healthy upstream"):
        kube.objects("v1", "Pod", "n")


class Quiet(FakeApi):
    """Watches begin, and nothing happens."""

    def _handle(self, handler: Any) -> None:
        if "watch=true" not in handler.path:
            super()._handle(handler)
            return
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.rfile.read(1)  # until the client is gone


def test_after_an_interruption_others_wait_no_longer_and_clearing_up_may_ask_for_a_while(
    tmp_path: Path,
) -> None:
    api = Quiet({"GET /api/v1/namespaces/n/pods": listing()})
    api.start()
    kube = Kube(from_kubeconfig(kubeconfig(tmp_path / "kubeconfig", api.url)), load_timings().run)
    ended: list[Exception] = []

    def wait() -> None:
        try:
            Waits(kube).pods_ready("n", "app=x", 1, within=60)
        except Exception as error:
            ended.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.5)
    kube.interrupt(1.0)
    waiting.join()
    assert [type(item) for item in ended] == [ApiGone]
    assert "interrupted" in str(ended[0])
    kube.version()
    pod = threading.Thread(target=kube.version)  # clearing up has threads of its own
    pod.start()
    pod.join()
    time.sleep(1.0)
    with pytest.raises(ApiGone, match="interrupted"):
        kube.read("/version")
    kube.close()
    api.stop()


def test_a_server_that_is_back_is_remembered_as_lost_and_asked_again(
    tmp_path: Path, now: Callable[[float], None]
) -> None:
    reach, other = (Reach(tmp_path, PATIENCE) for _ in range(2))
    reach.silent(1000.0, "refused")
    reach.end("the API server is lost", gone=True)
    other.is_back()
    assert (reach.gone, reach.was_gone) == ("", "the API server is lost")
    assert reach.ended == "the API server is lost"
    reach.check("GET /x")
    assert {path.name for path in tmp_path.iterdir()} == {"was-gone", "ended"}
    other.is_back()
    assert reach.was_gone == "the API server is lost"


def test_an_answer_ends_a_silence(tmp_path: Path, now: Callable[[float], None]) -> None:
    reach = Reach(tmp_path, PATIENCE)
    reach.answered()
    reach.silent(1000.0, "refused")
    assert [path.name for path in tmp_path.iterdir()] == ["silence"]
    reach.answered()
    assert not [*tmp_path.iterdir()]


def test_without_a_folder_nothing_is_lost() -> None:
    reach = Reach()
    reach.silent(1000.0, "refused")
    reach.end("over", gone=True, unusable=True)
    reach.answered()
    reach.is_back()
    assert (reach.gone, reach.was_gone, reach.ended, reach.unusable) == ("", "", "", False)


def test_the_first_line_of_the_first_reason_counts(tmp_path: Path) -> None:
    reach = Reach(tmp_path)
    reach.end("no memory\nmore", unusable=True)
    reach.end("another", gone=True)
    assert (reach.ended, reach.unusable, reach.gone) == ("no memory", True, "another")
