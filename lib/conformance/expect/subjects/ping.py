# SPDX-License-Identifier: Apache-2.0
"""Expectations about ping within the cluster and beyond it, as the systems' own commands tell it.

Only a line that tells a reply counts (``Reply from ADDRESS: bytes=``): Windows' summary does not, since "100% loss"
contains "0% loss" and "Destination host unreachable" counts as received; nor does the exit code.  Silence is believed
only when as many pings in a row as verdicts must agree got no answer.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from conformance.errors import (
    ControlBroken,
    MissingCapability,
    Nonconformance,
    ProbeBroken,
    first_line,
)
from conformance.expect import owners
from conformance.expect.check import Check, Judged, Ruling
from conformance.expect.engine.answered import PING_UNTOLD, as_wanted
from conformance.expect.engine.at_once import at_once
from conformance.expect.explain import message
from conformance.expect.guard import unless_changed
from conformance.expect.limitation import LimitedCase
from conformance.expect.subject import Subject
from conformance.expect.subjects.commands import Commands
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.endpoint import Addressing, Protocol, Target, Workload
from conformance.model.explanation import Explanation
from conformance.model.facts import Fact
from conformance.pods.groups import PodPair, PodPairs
from conformance.verdicts.meaning import of_limitation

ECHOES = 3
"""Requests of one ping: the first may wait for an address to be resolved."""
REPLY = (1, ECHOES)
SILENCE = (1,)
"""Requests of the first ping and of others, where a reply is wanted and where none is: a ping waits for all."""
REPLY_WITHIN = 1.0
"""s.  ``-w 1000`` and ``-W 1``: replies take milliseconds, and a tenth of a second over the Internet."""
TAKES = ECHOES * (REPLY_WITHIN + 1)
"""s.  Longest time of one ping: a wait and a pause of a second for each request."""
REPLIES = {"windows": r"Reply from {address}: bytes=", "linux": r"\d+ bytes from {address}:"}
"""The line that tells a reply, by operating system."""
SUMMARIES = {"windows": r"Packets: Sent = \d+", "linux": r"\d+ packets transmitted"}
"""What a ping that did its work ends with."""

ECHO = "let manifests/probes/echo_server.py answer there, on the port that --external-target names"
BEFORE = "it does not pass before the policy is made either, so that silence would show nothing"
LOOK_AT_ICMP = "look for policies and firewall rules that drop ICMP"


@dataclass
class Beyond(Subject):
    """Expectations of one test; ``outside`` is the target beyond the cluster, or None where none was named."""

    commands: Commands
    outside: tuple[str, int] | None

    def control(self, windows: Sequence[Workload], linux: Workload, *, because: str) -> None:
        """TCP from the Windows pods reaches the target, and it answers the Linux pod's ping.  Raises ControlBroken."""
        self.expect.control(windows, self._there("tcp"), because=because)
        self._answers(linux)

    def target_of(self, clients: Sequence[Workload]) -> list[Target]:
        """Return the target by TCP; none where none was named, or where it does not answer each of these pods.

        What a policy closes beyond the cluster can then be asked beside what it closes within.
        """
        if self.outside is None:
            return []
        target = self._there("tcp")
        seen = self.expect.prober.observe([self.expect.attempt(pod, target) for pod in clients])
        return [target] if all(as_wanted(one, True) for one in seen) else []

    def sees_nodes(
        self,
        clients: Iterable[Workload],
        protocol: Protocol,
        node: Workload,
        pools: Mapping[str, Fact[str]],
        *,
        because: str,
    ) -> None:
        """The target sees the address of each client's node as its client, as it sees that of ``node``.

        ``pools`` say whether they have natOutgoing.  Raises MissingCapability where one has not, where the target does
        not tell ``node`` whom it sees, or where something beyond the nodes translates, too; ControlBroken where it does
        not answer ``node``, Nonconformance as :meth:`Expect.sources`.
        """
        asked_for(pools)
        own = [(node, self._there(protocol))]
        answers = "the target answers a node of the cluster"
        if protocol == "tcp":
            self.expect.control(own, because=answers)
        try:
            told = self.expect.heard(own, because=f"{answers} and says whom it saw", control=True)
        except ControlBroken as error:
            raise MissingCapability(
                f"the target does not tell whom it saw: {first_line(error)}", ECHO
            ) from None
        clients_seen = {one.seen_client for rounds in told.values() for one in rounds}
        if "" in clients_seen:
            raise MissingCapability("the target beyond the cluster does not tell whom it saw", ECHO)
        seen = clients_seen - {node.node_address}
        if seen:
            so = f"{node.node} ({node.node_address}) is seen as {', '.join(sorted(seen))}"
            raise MissingCapability(
                f"something beyond the nodes translates, too: {so}",
                "name a target that sees nodes' own addresses: --external-target",
            )
        self.expect.sources(
            [(client, self._there(protocol)) for client in clients],
            are=lambda client: [client.node_address],
            because=because,
        )

    def ping_passes(self, pod_pairs: PodPairs, *, because: str) -> None:
        """Each Linux pod's ping of the other of its pair is answered.

        Raises ControlBroken: where networks drop ICMP, what becomes of Windows' shows nothing.
        """
        so = f"ping does not pass between Linux pods either, so that of Windows pods shows nothing ({because})"
        self.before(pod_pairs, so)

    def ping(
        self,
        pod_pairs: PodPairs,
        *,
        because: str,
        want: bool = True,
        meanwhile: Callable[[], object] = list,
    ) -> None:
        """Each pod's ping of the other of its pair is answered, the first or one that is tried again.

        Without ``want`` none is, however often: where one is answered, the path is not closed.  It has been open before
        (:meth:`before`), so that no address waits to be resolved: each of as many as must agree asks once.
        ``meanwhile`` is done while they are waited for; raises what it raises, too.
        """
        began = time.monotonic()
        asked = [(source, there.address) for source, there in pod_pairs]
        with ThreadPoolExecutor(1, thread_name_prefix="pings") as pool:
            pings = pool.submit(self._pings, asked, *(REPLY if want else SILENCE))
            meanwhile()
        world = self.expect.context.world

        def judge(case: tuple[PodPair, Future[list[_Said]]]) -> Judged:
            (source, there), ran = case
            said = self._said(source, ran)
            if said[-1].replied is want:
                return f"{because}; {PING_UNTOLD}"
            text = self._told(source, there, said, because)
            wrong: Exception = Nonconformance(text)
            if by := world.others.excuse(
                source, there.tcp(0), "closed" if want else "open", protocol="ICMP"
            ):
                wrong = owners.decided(world.others, text, by)
            elif want and (by := world.runs.excuse([source.node, there.node], began)):
                wrong = owners.decided(world.runs, text, by)
            return unless_changed(self.expect, [source, there], wrong)

        ran = zip(pod_pairs, pings.result(), strict=True)
        self.check("open" if want else "closed", [(*one[0], one) for one in ran], judge)

    def before(self, pod_pairs: PodPairs, so: str = BEFORE) -> None:
        """Each ping passes before a policy is made.  Raises ControlBroken, and says what follows (``so``)."""
        pings = self._pings([(source, there.address) for source, there in pod_pairs], *REPLY)
        for (source, there), ran in zip(pod_pairs, pings, strict=True):
            self._demand_reply(source, there, self._said(source, ran), so, LOOK_AT_ICMP)

    def under_icmp_rules(
        self,
        claim: str,
        part: str,
        *,
        linux: PodPairs,
        skipped: PodPairs,
        kept: PodPairs,
        allowed: PodPairs,
        because: str,
    ) -> None:
        """Under a policy pings pass that a rule lets in on ``linux`` and Windows leaves out: ``skipped`` are silent.

        CONFIRMED, and LIFTED where one is answered.  ``kept``: pairs that no rule lets in, VIOLATED where one is
        answered.  ``allowed``: those that a rule on ICMP alone lets in, the claim's part ``ICMP alone``.  Raises
        ControlBroken where a Linux pod does not answer.
        """
        wanted = [*linux, *allowed]
        silent = [*skipped, *kept]
        ran = dict(
            zip(
                wanted,
                self._pings([(source, there.address) for source, there in wanted], *REPLY),
                strict=True,
            )
        )
        pings = self._pings([(source, there.address) for source, there in silent], *SILENCE)
        ran |= dict(zip(silent, pings, strict=True))
        so = "the Linux pod does not answer under the rule, so that a Windows pod's silence shows nothing"
        for source, there in linux:
            self._demand_reply(
                source, there, self._said(source, ran[source, there]), so, LOOK_AT_ICMP
            )
        named = LimitedCase(claim=claim, part=part)
        alone = LimitedCase(claim=claim, part="ICMP alone")

        def judge(pair: PodPair) -> Judged:
            said = self._said(pair[0], ran[pair])
            told = f"{because}; {PING_UNTOLD}"
            replied = said[-1].replied
            if pair in skipped:
                return Ruling(
                    f"{said[-1]}, although {told}" if replied else because, of_limitation(replied)
                )
            if replied == (pair in allowed):
                return told if replied else because
            return unless_changed(
                self.expect, pair, Nonconformance(self._told(*pair, said, because))
            )

        context = self.expect.context
        with (
            Check(alone.keep(context), "open") as opened,
            Check(named.keep(context), "closed") as shut,
        ):
            shut.each([(*pair, pair) for pair in silent], judge)
            opened.each([(*pair, pair) for pair in allowed], judge)

    def do_not_ping(self, sources: Sequence[Workload], *, because: str, beside: Workload) -> None:
        """No pod's ping beyond the cluster is answered, however often; where one is, the claim is LIFTED there.

        Raises ControlBroken when the target does not answer the ping of ``beside``, a Linux pod, any more afterwards.
        """
        address, _ = self._target
        pings = self._pings([(source, address) for source in sources], ECHOES)
        (control,) = at_once([partial(self._answers, beside)])

        def judge(case: tuple[Workload, Future[list[_Said]]]) -> Judged:
            source, ran = case
            said = self._said(source, ran)
            if said[-1].replied:
                told = f"{source.label} -> {address}  {said[-1]}, although {because}; {PING_UNTOLD}"
                return Ruling(told, ClaimVerdict.LIFTED)
            control.result()
            return because

        ran = zip(sources, pings, strict=True)
        self.check("closed", [(one[0], None, one) for one in ran], judge)

    def _answers(self, linux: Workload) -> None:
        """Raises ControlBroken where the target answers no ping of a Linux pod."""
        address, _ = self._target
        (ran,) = self._pings([(linux, address)], *REPLY)
        so = "a target that answers no ping shows nothing"
        self._demand_reply(
            linux, address, self._said(linux, ran), so, "name another target by --external-target"
        )

    def _demand_reply(
        self, linux: Workload, there: Workload | str, said: Sequence[_Said], so: str, do: str
    ) -> None:
        if not said[-1].replied:
            text = message.of_control(
                replace(
                    self._told(linux, there, said),
                    so=so,
                    lines={"command": said[-1].command, "do": do},
                )
            )
            raise ControlBroken(text, control="ping from a Linux pod")

    def _pings(
        self, pings: Sequence[tuple[Workload, str]], *echoes: int
    ) -> list[Future[list[_Said]]]:
        """What became of the pings from each pod to its address, all at once; ``echoes``: of the first, and others."""
        return at_once(
            [partial(self._until_answered, source, address, *echoes) for source, address in pings]
        )

    def _until_answered(
        self, source: Workload, address: str, first: int, *others: int
    ) -> list[_Said]:
        """Pings until one is answered, at most as many as verdicts must agree, or until one did not ping."""
        said = [self._ping(source, address, first)]
        while said[-1].silent and len(said) < self.expect.timings.of(source.os).agree:
            said.append(self._ping(source, address, *others or (first,)))
        return said

    def _said(self, source: Workload, ran: Future[list[_Said]]) -> list[_Said]:
        """One pod's pings.  Raises ProbeBroken where one did not run, or did not ping."""
        said = ran.result()
        for ping in said:
            self.expect.context.sink.attach(
                f"ping in {source.role}", f"$ {ping.command}\n{ping.printed}\n-> {ping.exit_code}"
            )
        last = said[-1]
        if not last.pinged:
            raise ProbeBroken(
                f"{source.label} -> {last.address}  {last.command}: it did not ping: {last.text[:300] or 'nothing'}"
            )
        return said

    @property
    def _target(self) -> tuple[str, int]:
        if self.outside is None:
            raise MissingCapability(
                "no target beyond the cluster was named", "name one by --external-target ADDRESS"
            )
        return self.outside

    def _there(self, protocol: Protocol) -> Target:
        address, port = self._target
        return Target(
            host=address,
            port=port,
            protocol=protocol,
            path=Addressing.EXTERNAL,
            name="beyond the cluster",
        )

    def _ping(self, source: Workload, address: str, echoes: int) -> _Said:
        wait = str(int(REPLY_WITHIN * 1000)) if source.os == "windows" else str(int(REPLY_WITHIN))
        options = (
            ["-n", str(echoes), "-w", wait]
            if source.os == "windows"
            else ["-c", str(echoes), "-W", wait]
        )
        argv = ["ping", *options, address]
        ended = self.commands.run(
            source, argv, self.commands.timings.of(source.os).exec_overhead + TAKES
        )
        text = " ".join(ended.output.split())
        return _Said(
            address=address,
            echoes=echoes,
            command=" ".join(argv),
            printed=ended.output,
            text=text,
            exit_code=ended.exit_code,
            pinged=re.search(SUMMARIES[source.os], text) is not None,
            replied=re.search(REPLIES[source.os].format(address=re.escape(address)), text)
            is not None,
            seconds=ended.seconds,
        )

    def _told(
        self, source: Workload, there: Workload | str, said: Sequence[_Said], because: str = ""
    ) -> Explanation:
        """What is wrong with pings; ``there``: a pod, or an address."""
        address, node = (
            (f"{there.address} ({there.label})", there.node)
            if isinstance(there, Workload)
            else (there, there)
        )
        expected, observed = ("no reply", "one") if said[-1].replied else ("a reply", "none")
        return Explanation(
            claims=self.expect.context.claims,
            path=f"{source.label} -> {address}",
            where=f"{source.node} to {node} (ping)",
            expected=expected,
            observed=observed,
            tries=sum(item.echoes for item in said),
            seconds=sum(item.seconds for item in said),
            lines={
                "because": because,
                "command": f"{said[-1].command}, {counted(len(said), 'time')}",
                "printed": said[-1].text[:300],
                "do": LOOK_AT_ICMP,
            },
        )


def asked_for(pools: Mapping[str, Fact[str]]) -> None:
    """Raises MissingCapability where a pool has no natOutgoing, of these that say whether they have."""
    for name, natted in pools.items():
        if natted.value != "True":
            raise MissingCapability(
                f"nothing here asks for it: {name} is not true ({natted.source})",
                "set it for every enabled pool",
            )


@dataclass(frozen=True, kw_only=True)
class _Said:
    """A ping that ended."""

    address: str
    echoes: int
    command: str
    printed: str
    text: str
    """What it printed, in one line."""
    exit_code: int
    pinged: bool
    """Whether it did its work."""
    replied: bool
    seconds: float

    @property
    def silent(self) -> bool:
        """Whether it pinged, and nothing answered."""
        return self.pinged and not self.replied

    def __str__(self) -> str:
        return f"{self.command}: {'answered' if self.replied else 'not answered'}"
