# SPDX-License-Identifier: Apache-2.0
"""Results arrive complete or not at all, the exit code is the judge's, and nothing is unpacked."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conformance.cli import main
from conformance.errors import EnvironmentBroken
from conformance.jobs import fetch
from conformance.jobs.fetch import NoReport, archive
from conformance.kube.streaming import ExecEnd
from tests.unit.conformance.kube import fake_api

BODY = bytes(range(256)) * 300
NAME = "2026-11-29T10-00-00Z-0a1b2c.zip"
PODS = "GET /api/v1/namespaces/calico-conformance/pods"
END = ExecEnd(0, "", "")


def lines(body: bytes = BODY, **head: Any) -> list[bytes]:
    sums = {"name": NAME, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    return [
        json.dumps({**sums, **head}).encode(),
        *(base64.b64encode(body[begin : begin + 48]) for begin in range(0, len(body), 48)),
        b"end",
    ]


def test_an_archive_is_put_together_as_it_was() -> None:
    head, body = archive(iter([*lines(), END]))
    assert (head["name"], body) == (NAME, BODY)


WRONG: list[Any] = [
    pytest.param([*lines()[:-3], b"end"], "arrived damaged", id="lines missing"),
    pytest.param([*lines()[:-1], ExecEnd(None, "the connection was cut", "")],
                 "not sent completely: the connection was cut; fetch again", id="cut"),
    pytest.param([*lines()[:9], ExecEnd(1, "", "Traceback\n")],
                 "not sent completely: Traceback", id="broken"),
    pytest.param([ExecEnd(137, "", "")], "not sent completely: exit code 137", id="killed"),
    pytest.param([ExecEnd(None, 'the container is not running: not found ("holder")', "")],
                 "container holder has ended", id="ended"),
    pytest.param(lines(sha256="0" * 64), "arrived damaged: 76800 of 76800", id="another sum"),
    pytest.param(lines(bytes=100), "arrived damaged", id="longer than announced"),
    pytest.param(lines(bytes=3 << 30), "holder sends no archive", id="far too long"),
    pytest.param(lines(bytes="many"), "holder sends no archive", id="no number"),
    pytest.param(lines(sha256="x"), "holder sends no archive", id="no sum"),
    pytest.param(lines(name="../../.bashrc"), "holder sends no archive", id="path as a name"),
    pytest.param(lines(name="/etc/cron.d/x.zip"), "holder sends no archive", id="absolute"),
    pytest.param(lines(name="x.zip\n"), "holder sends no archive", id="newline"),
    pytest.param(lines(name=7), "holder sends no archive", id="number as a name"),
    pytest.param([b"[]", b"end"], "holder sends no archive: []", id="no object"),
    pytest.param([b"\xff\xfe", b"end"], "holder sends no archive", id="no text"),
    pytest.param([lines()[0], b"*" * 64, b"end"], "arrived damaged", id="no base64"),
    pytest.param([b"end"], "arrived damaged: 0 of 0 bytes", id="nothing"),
]  # fmt: skip


@pytest.mark.parametrize(("received", "said"), WRONG)
def test_whatever_else_arrives_is_no_archive(received: list[Any], said: str) -> None:
    with pytest.raises(EnvironmentBroken) as broken:
        archive(iter([*received, END]))
    assert said in str(broken.value)


def test_a_holder_without_a_report_says_so() -> None:
    ended = ExecEnd(4, "", "ERROR: no run has left a report in /results/p\n")
    with pytest.raises(NoReport, match=r"^no run has left a report in /results/p$"):
        archive(iter([ended]))


def a_pod(**state: Any) -> dict[str, Any]:
    statuses = [
        {"name": "holder", "state": {"running": {}}},
        {"name": "judge", "state": state},
    ]
    return {
        "metadata": {"name": "conformance-x", "creationTimestamp": "2026-11-29T10:00:00Z"},
        "status": {"phase": "Running", "containerStatuses": statuses},
    }


class Holder:
    """A pod's holder, which sends what it is given and notes that it was released."""

    def __init__(
        self, sends: list[bytes], code: int = 0, error: bytes = b"", released: int = 0
    ) -> None:
        self.sends, self.code, self.error, self.released = sends, code, error, released
        self.asked: list[list[str]] = []

    def __call__(self, channel: Any, query: dict[str, list[str]]) -> None:
        assert query["container"] == ["holder"]
        self.asked.append(query["command"])
        sending = "--send" in query["command"]
        if sending:
            channel.send(1, b"".join(line + b"\n" for line in self.sends))
            channel.send(2, self.error)
        channel.status(self.code if sending else self.released)
        channel.close()


@pytest.fixture
def fetched(
    api: fake_api.FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., int]:
    """``calico-conformance fetch`` on a cluster with these pods, the next for each look."""
    monkeypatch.setattr(fetch, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(fetch, "STARTS_WITHIN", 0.02)
    (tmp_path / "to").mkdir()

    def run(holder: Holder, *looks: list[dict[str, Any]], minutes: str = "5") -> int:
        left = list(looks)

        def pods(_: Any) -> tuple[int, dict[str, Any]]:
            items = left.pop(0) if len(left) > 1 else left[0]
            return 200, {"kind": "PodList", "metadata": {}, "items": items}

        api.routes[PODS] = pods
        api.exec = holder
        kubeconfig = fake_api.kubeconfig(tmp_path / "kubeconfig", api.url)
        return main(
            ["fetch", f"--kubeconfig={kubeconfig}", f"--to={tmp_path / 'to'}", "--minutes", minutes]
        )

    return run


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return a_pod(terminated={"exitCode": code, "reason": reason})


@pytest.mark.parametrize("code", [0, 1, 6, 7])
def test_the_exit_code_is_the_judges_and_the_holder_is_released(
    fetched: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int
) -> None:
    holder = Holder(lines())
    waiting = a_pod(waiting={"reason": "ContainerCreating"})
    running = a_pod(running={"startedAt": "x"})
    looks = [[], [waiting], [waiting], [running], [running], [ended(code)]]
    assert fetched(holder, *looks) == code
    assert (tmp_path / "to" / NAME).read_bytes() == BODY
    assert [path.name for path in (tmp_path / "to").iterdir()] == [NAME]
    assert [command[-2:] for command in holder.asked] == [
        ["--send", "/results/conformance-x"], ["--release", "/results/conformance-x"],
    ]  # fmt: skip
    out, error = capsys.readouterr()
    assert out == ""
    assert "judge: waiting ContainerCreating\njudge: running\njudge: terminated" in error
    assert f"the judge ended with exit code {code}\n" in error


def test_a_holder_that_does_not_end_in_time_changes_no_verdict(
    fetched: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may end before the command that ends it: then that command is killed with it."""
    assert fetched(Holder(lines(), released=137), [ended(1)]) == 1
    assert (tmp_path / "to" / NAME).read_bytes() == BODY
    said = capsys.readouterr().err
    assert (
        "the judge ended with exit code 1\ncontainer holder may keep running, for 24 hours at "
        "most: " in said
    )


def test_a_killed_judge_without_a_report_leaves_its_holder_and_its_own_exit_code(
    fetched: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    holder = Holder([], 4, b"ERROR: no run has left a report in /results/conformance-x\n")
    assert fetched(holder, [ended(137, "OOMKilled")]) == 137
    said = capsys.readouterr().err
    assert "exit code 137 (OOMKilled): no run has left a report" in said
    assert "kubectl -n calico-conformance logs conformance-x -c judge" in said
    assert len(holder.asked) == 1, "it is not released"
    assert list((tmp_path / "to").iterdir()) == []
    assert fetched(holder, [ended(0, "Completed")]) == 7, "no report is no success"


def test_what_does_not_arrive_whole_is_not_released_and_no_verdict(
    fetched: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    holder = Holder(lines()[:-20])
    assert fetched(holder, [ended(0)]) == 7
    assert "the archive was not sent completely" in capsys.readouterr().err
    assert len(holder.asked) == 1
    assert list((tmp_path / "to").iterdir()) == []


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        ([[]], "has no pod: it was not applied, its pod was refused or evicted"),
        ([[a_pod(running={})], [a_pod(running={})], []], "is gone, and its results with it"),
        ([[a_pod(running={})]], "has not ended within 0 min; fetch again"),
    ],
)
def test_what_cannot_be_waited_for_is_one_line(
    fetched: Callable[..., int], capsys: pytest.CaptureFixture[str], looks: Any, said: str
) -> None:
    assert fetched(Holder([]), *looks, minutes="0.002") == 7
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ERROR: ")]
    assert said in line


def test_options_that_cannot_be_meant_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fetch", "--to", str(tmp_path / "nowhere")]) == 4
    assert main(["fetch", "--minutes", "0"]) == 4
    assert main(["fetch", "--minutes", "nan"]) == 4
    assert capsys.readouterr().err.count("ERROR: ") == 3
