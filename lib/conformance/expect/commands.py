"""The demo's literal commands, checked against structured attempts on the same path.

The attempt gives the verdict.  The command's exit code and output must agree with it: a command that gets through
where attempts do not is a violation, since nothing else could have printed the answer; any other disagreement says
something about the tools, and is ProbeBroken.  Each pair of pods is decided, whatever the commands between others said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from conformance.errors import Nonconformance, ProbeBroken, SuiteError
from conformance.expect.routes import Route
from conformance.expect.tally import Tally
from conformance.expect.traffic import Context
from conformance.model.decision import Half
from conformance.model.endpoint import Target, Workload
from conformance.settings import Timings

__tracebackhide__ = True  # a failure shows the line of the test, not how it was decided

TIMED_OUT = "The operation has timed out"
"""What Windows PowerShell says of a request that nobody answered."""
REQUEST_TIMEOUT = 5.0
"""s.  ``-TimeoutSec 5`` of the demo's command."""


class Ended(Protocol):
    """A command that ended."""

    @property
    def exit_code(self) -> int:
        """Its exit status."""

    @property
    def output(self) -> str:
        """Standard output and error as text."""

    @property
    def seconds(self) -> float:
        """How long it ran."""


Run = Callable[[Workload, Sequence[str], float], Ended]
"""Runs a command in a pod's main container within so many seconds; raises ProbeBroken."""


@dataclass
class Commands:
    """Literal commands of one test."""

    run: Run
    timings: Timings
    context: Context = field(default_factory=Context)

    def nc_opens(self, routes: Sequence[Route], *, because: str) -> None:
        """``nc -vz ADDRESS PORT`` in each Linux client says open, with exit code 0."""

        def said(client: Workload, target: Target) -> None:
            argv = ["nc", "-vz", target.host, str(target.port)]
            self._succeeds(client, target, argv, f"{target.host} ({target.host}:{target.port}) open", because)

        self._each(routes, said, "open", because)

    def web_request_shows(self, routes: Sequence[Route], page: str, *, because: str) -> None:
        """``Invoke-WebRequest`` in each Windows client answers with status 200 and a page that contains ``page``."""

        def said(client: Workload, target: Target) -> None:
            self._succeeds(client, target, _web_request(target), page, because)

        self._each(routes, said, "open", because)

    def web_request_times_out(self, routes: Sequence[Route], *, because: str) -> None:
        """``Invoke-WebRequest`` in each Windows client says that the operation has timed out, with exit code 1."""

        def said(client: Workload, target: Target) -> None:
            told = self._run(client, target, _web_request(target), f"exit code 1, {TIMED_OUT!r}", because)
            if told.ended.exit_code == 0:
                raise Nonconformance(
                    f"{told}\n  attempts on the same path timed out before: the denial does not hold for every request"
                )
            if not _says(told.ended.output, TIMED_OUT):
                raise ProbeBroken(
                    f"{told}\n  attempts on the same path timed out: the command failed for another reason"
                )

        self._each(routes, said, "closed", because)

    def _each(
        self, routes: Sequence[Route], said: Callable[[Workload, Target], None], half: Half, because: str
    ) -> None:
        """Every route is decided, whatever became of the others; raises the worst failure."""
        tally = Tally(self.context, half)
        for client, target in routes:
            try:
                said(client, target)
            except (Nonconformance, SuiteError) as error:
                tally.wrong(client, target, error)
            else:
                tally.right(client, target, because)
        tally.end()

    def _succeeds(self, client: Workload, target: Target, argv: Sequence[str], shows: str, because: str) -> None:
        said = self._run(client, target, argv, f"exit code 0, {shows!r}", because)
        if said.ended.exit_code != 0 or not _says(said.ended.output, shows):
            raise ProbeBroken(
                f"{said}\n  attempts on the same path connected: the command, its image or its server is not the demo's"
            )

    def _run(self, client: Workload, target: Target, argv: Sequence[str], expected: str, because: str) -> _Said:
        ended = self.run(client, argv, self.timings.of(client.os).exec_overhead + REQUEST_TIMEOUT)
        self.context.attach(f"{argv[0]} in {client.role}", f"$ {' '.join(argv)}\n{ended.output}\n-> {ended.exit_code}")
        claims = ", ".join(self.context.claims) or "no claim"
        head = f"{claims}  {client.label} -> {target.label}  {' '.join(argv[:2])}: expected {expected}"
        return _Said(ended, head, because, " ".join(argv))


def _says(output: str, words: str) -> bool:
    """Whether an output has these words, wherever Format-List has wrapped them: at the console's width, or at 80."""
    return "".join(words.split()) in "".join(output.split())


@dataclass(frozen=True)
class _Said:
    """A command that ended, and the message should it be wrong."""

    ended: Ended
    head: str
    because: str
    command: str

    def __str__(self) -> str:
        said = " ".join(self.ended.output.split())
        return (
            f"{self.head}, observed exit code {self.ended.exit_code} (1 try, {self.ended.seconds:.1f} s)\n"
            f"  because   {self.because}\n"
            f"  command   {self.command}\n"
            f"  printed   {said[:300] or 'nothing'}"
        )


def _web_request(target: Target) -> list[str]:
    """As the demo has it."""
    where = f"http://{target.host}" if target.port == 80 else f"http://{target.host}:{target.port}"
    return ["powershell", "Invoke-WebRequest", "-Uri", where, "-UseBasicParsing", "-TimeoutSec", "5"]
