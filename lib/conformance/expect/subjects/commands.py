# SPDX-License-Identifier: Apache-2.0
"""Runs the demo's literal commands, and compares them with attempts by the suite's agents on the
same path.

The attempt gives the verdict. The command's exit code and output must agree with the verdict: a
command that connects where attempts do not is a violation, since only the server could have sent
the printed answer. Any other disagreement is a fault of the tools and raises ProbeBroken. Each pair
of pods is decided separately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from conformance.errors import Nonconformance, ProbeBroken
from conformance.expect.check import Judged, check
from conformance.expect.context import Context
from conformance.expect.engine.answered import COMMAND_UNTOLD
from conformance.expect.engine.at_once import at_once
from conformance.model.attempt import Attempt, Kind
from conformance.model.decision import Half
from conformance.model.endpoint import Pair, Target, Workload
from conformance.model.explanation import Explanation
from conformance.probe.host import quoted
from conformance.settings import Timings

TIMED_OUT = "The operation has timed out"
"""Windows PowerShell's message about a request without an answer."""
UNKNOWN_NAME = "SocketException"
"""The error's id in PowerShell's message when Windows' resolver returns no address. The id is the
same in every language."""
COMPARE_SUFFIXES = (
    "compare Get-DnsClientGlobalSetting and Get-DnsClient in the pod with its namespace"
    " (dns of CNI's file)"
)
REQUEST_TIMEOUT = 5.0
"""The time limit of the demo's command in seconds (``-TimeoutSec 5``)."""


class Ended(Protocol):
    """A command that has ended."""

    @property
    def exit_code(self) -> int:
        """Return the command's exit status."""

    @property
    def output(self) -> str:
        """Return the command's standard output and standard error as one text."""

    @property
    def seconds(self) -> float:
        """Return the number of seconds for which the command ran."""


Run = Callable[[Workload, Sequence[str], float], Ended]
"""Runs a command in a pod's main container, with a time limit in seconds; raises ProbeBroken."""


@dataclass
class Commands:
    """The literal commands of a test."""

    run: Run
    timings: Timings
    context: Context = field(default_factory=Context)

    def nc_opens(self, pairs: Sequence[Pair], *, because: str) -> None:
        """Expect ``nc -vz ADDRESS PORT`` in each Linux client to report open, with exit code 0."""
        self._succeed(
            pairs,
            lambda target: ["nc", "-vz", target.host, str(target.port)],
            lambda target: f"{target.host} ({target.host}:{target.port}) open",
            because,
        )

    def web_request_shows(self, pairs: Sequence[Pair], page: str, *, because: str) -> None:
        """Expect ``Invoke-WebRequest`` in each Windows client to print status 200 and a page that
        contains ``page``.
        """
        self._succeed(pairs, _web_request, lambda _: page, because)

    def web_request_times_out(self, pairs: Sequence[Pair], *, because: str) -> None:
        """Expect ``Invoke-WebRequest`` in each Windows client to print that the operation has
        timed out, with exit code 1.
        """

        def judge(output: _Output, _: Target) -> None:
            if output.ended.exit_code == 0:
                raise Nonconformance(
                    output.but(
                        "probe attempts on this path timed out, so the denial does not hold "
                        "for every request"
                    )
                )
            if not _says(output.ended.output, TIMED_OUT):
                raise ProbeBroken(
                    output.but(
                        "probe attempts on this path timed out, so the command failed for "
                        "another reason"
                    )
                )

        self._each(
            pairs,
            _web_request,
            lambda _: f"exit code 1, {TIMED_OUT!r}",
            judge,
            half="closed",
            because=because,
        )

    def windows_resolves(
        self, clients: Sequence[Workload], name: str, to: Sequence[str], *, because: str
    ) -> None:
        """Expect Windows' own resolver, which applications use, to return these addresses for the
        name in each client.

        The resolver uses the pod's suffix list, and the DNS client's cache and rules; one answer
        decides. Raise Nonconformance if it returns other addresses or no such name, ProbeBroken if
        the command's output shows neither.
        """
        wanted = sorted(to)
        shown = "ForEach-Object { $_.IPAddressToString }"
        words = ["powershell", f"[System.Net.Dns]::GetHostAddresses({quoted(name)}) | {shown}"]
        ran = at_once([partial(self._run, client, words) for client in clients])

        def judge(case: tuple[Workload, Future[Ended]]) -> Judged:
            client, future = case
            ended = future.result()
            explanation = Explanation(
                claims=self.context.claims,
                path=client.label,
                where=client.node,
                expected=", ".join(wanted),
                observed="",
                prefix=f"{name} by Windows' own resolver: ",
                lines={"because": because},
            )
            output = _Output(ended, explanation, " ".join(words))
            if UNKNOWN_NAME in ended.output:
                return Nonconformance(output.but(do=COMPARE_SUFFIXES))
            if ended.exit_code != 0:
                return ProbeBroken(
                    output.but("the command failed for a reason other than the name")
                )
            return (
                because if sorted(ended.output.split()) == wanted else Nonconformance(output.but())
            )

        cases = [(pair[0], None, pair) for pair in zip(clients, ran, strict=True)]
        check(self.context, "behaviour", cases, judge)

    def _succeed(
        self,
        pairs: Sequence[Pair],
        argv: Callable[[Target], Sequence[str]],
        shows: Callable[[Target], str],
        because: str,
    ) -> None:
        """Expect every command to end with exit code 0, and to print these words."""

        def judge(output: _Output, target: Target) -> None:
            if output.ended.exit_code != 0 or not _says(output.ended.output, shows(target)):
                raise ProbeBroken(
                    output.but(
                        "probe attempts on this path connected: the demo's command, image or "
                        "server differs"
                    )
                )

        self._each(
            pairs,
            argv,
            lambda target: f"exit code 0, {shows(target)!r}",
            judge,
            half="open",
            because=because,
        )

    def _each(
        self,
        pairs: Sequence[Pair],
        argv: Callable[[Target], Sequence[str]],
        expected: Callable[[Target], str],
        judge: Callable[[_Output, Target], None],
        *,
        half: Half,
        because: str,
    ) -> None:
        """Run the commands of all paths at once, and judge each command on its own. Raise the worst
        failure."""
        commands = [(pair, argv(pair[1])) for pair in pairs]
        ran = at_once([partial(self._run, client, words) for (client, _), words in commands])

        def judged(case: tuple[Pair, Sequence[str], Future[Ended]]) -> Judged:
            pair, words, future = case
            judge(
                self._output_of(pair, words, future.result(), expected(pair[1]), because), pair[1]
            )
            return f"{because}; {COMMAND_UNTOLD}" if half == "open" else because

        cases = [
            (*pair, (pair, words, future))
            for (pair, words), future in zip(commands, ran, strict=True)
        ]
        check(self.context, half, cases, judged)

    def _run(self, client: Workload, argv: Sequence[str]) -> Ended:
        return self.run(client, argv, self.timings.of(client.os).exec_overhead + REQUEST_TIMEOUT)

    def _output_of(
        self, pair: Pair, argv: Sequence[str], ended: Ended, expected: str, because: str
    ) -> _Output:
        client, target = pair
        self.context.sink.attach(
            f"{argv[0]} in {client.role}",
            f"$ {' '.join(argv)}\n{ended.output}\n-> {ended.exit_code}",
        )
        attempt = Attempt(
            source=client, target=target, kind=Kind.TCP, give_up_after=REQUEST_TIMEOUT
        )
        explanation = Explanation(
            claims=self.context.claims,
            path=attempt.label,
            where=attempt.nodes,
            prefix=f"{' '.join(argv[:2])}: ",
            expected=expected,
            observed="",
            lines={"because": because},
        )
        return _Output(ended, explanation, " ".join(argv))


def _says(output: str, words: str) -> bool:
    """Return whether an output contains these words, even if Format-List wrapped them (at the
    console's width or 80 columns)."""
    return "".join(words.split()) in "".join(output.split())


@dataclass(frozen=True)
class _Output:
    """The output of a command that has ended, and the explanation to use if the output is wrong."""

    ended: Ended
    _explanation: Explanation
    """The expected result of the command, and the place where the command ran."""
    command: str

    def but(self, so: str = "", do: str = "") -> Explanation:
        """Return the message that the output is wrong. ``so``: the end of its first line."""
        lines = {
            "command": self.command,
            "printed": " ".join(self.ended.output.split())[:300] or "nothing",
        }
        return replace(
            self._explanation,
            observed=f"exit code {self.ended.exit_code}",
            tries=1,
            seconds=self.ended.seconds,
            so=so,
            lines=self._explanation.lines | lines | ({"do": do} if do else {}),
        )


def _web_request(target: Target) -> list[str]:
    """Return the command of the demo's web request."""
    where = f"http://{target.host}" if target.port == 80 else f"http://{target.host}:{target.port}"
    return [
        "powershell",
        "Invoke-WebRequest",
        "-Uri",
        where,
        "-UseBasicParsing",
        "-TimeoutSec",
        "5",
    ]
