# SPDX-License-Identifier: Apache-2.0
"""Expectations about ping within the cluster and to addresses outside it, by the output of the
systems' own commands.

Only a line that reports a reply counts (``Reply from ADDRESS: bytes=``). The exit code does not
count, nor does Windows' summary, since "100% loss" contains "0% loss" and "Destination host
unreachable" counts as received. Silence counts only if as many pings in a row as must agree for a
verdict got no answer.
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
from conformance.expect.case import Paths
from conformance.expect.check import Check, Judged, Ruling
from conformance.expect.engine.answered import PING_UNTOLD, as_wanted
from conformance.expect.engine.at_once import at_once
from conformance.expect.explain import message
from conformance.expect.guard import unless_changed
from conformance.expect.subject import Subject
from conformance.expect.subjects.commands import Commands
from conformance.model.attempt import Kind
from conformance.model.claim import ClaimVerdict
from conformance.model.counted import counted
from conformance.model.endpoint import Addressing, Protocol, Target, Workload
from conformance.model.explanation import Explanation
from conformance.model.facts import Fact
from conformance.pods.groups import PodPair, PodPairs
from conformance.verdicts.meaning import of_limitation

ECHOES = 3
"""The number of requests of a ping: the first may wait until an address is resolved."""
REPLY = (1, ECHOES)
SILENCE = (1,)
"""The numbers of requests of a pod's first ping and of later pings: REPLY if a reply is expected,
SILENCE if no reply is expected. A ping waits for the replies to all its requests."""
REPLY_WITHIN = 1.0
"""The time limit for a reply, in seconds (``-w 1000`` and ``-W 1``): replies take milliseconds, and
a tenth of a second over the Internet."""
TAKES = ECHOES * (REPLY_WITHIN + 1)
"""The longest duration of a ping, in seconds: for each request, a wait for the reply and a pause of
one second."""
REPLIES = {"windows": r"Reply from {address}: bytes=", "linux": r"\d+ bytes from {address}:"}
"""The line that reports a reply, by operating system."""
SUMMARIES = {"windows": r"Packets: Sent = \d+", "linux": r"\d+ packets transmitted"}
"""The summary at the end of a ping that ran to its end, by operating system."""

ECHO = "let manifests/probes/echo_server.py answer there, on the port that --external-target names"
BEFORE = "ping does not pass before the policy is applied either, so a missing reply shows nothing"
LOOK_AT_ICMP = "look for policies and firewall rules that drop ICMP"


@dataclass
class ExternalPaths(Subject):
    """The expectations of a test about ping, and about an address outside the cluster. ``outside``:
    this address and its port; None: the user named no target."""

    commands: Commands
    outside: tuple[str, int] | None

    def control(self, windows: Sequence[Workload], linux: Workload, *, because: str) -> None:
        """Expect TCP from the Windows pods to reach the target, and the target to answer the
        Linux pod's ping. Raise ControlBroken.
        """
        self.expect.control(windows, self._there("tcp"), because=because)
        self._answers(linux)

    def target_of(self, clients: Sequence[Workload]) -> list[Target]:
        """Return the external target by TCP. Return an empty list if the user named no target, or
        if the target does not answer each of these pods.

        With this target, a test can check a policy's effect on traffic that leaves the cluster.
        """
        if self.outside is None:
            return []
        target = self._there("tcp")
        observations = self.expect.prober.observe(
            [self.expect.attempt(pod, target) for pod in clients]
        )
        return [target] if all(as_wanted(observation, True) for observation in observations) else []

    def sees_nodes(
        self,
        clients: Iterable[Workload],
        protocol: Protocol,
        node: Workload,
        pools: Mapping[str, Fact[str]],
        *,
        because: str,
    ) -> None:
        """Expect the target to receive the address of the client's node as the source of each
        client's traffic.

        ``node`` is the control: the target receives this node's address unchanged. ``pools``: for
        each pool, whether it has natOutgoing. Raise MissingCapability if a pool has no natOutgoing,
        if the target does not report the source to ``node``, or if a device outside the cluster
        translates addresses, too. Raise ControlBroken if the target does not answer ``node``, and
        Nonconformance as :meth:`Expect.sources` does.
        """
        asked_for(pools)
        own = [(node, self._there(protocol))]
        answers = "the target answers a node of the cluster"
        if protocol == "tcp":
            self.expect.control(own, because=answers)
        try:
            answers_by_path = self.expect.answers(
                own, because=f"{answers} and reports the client's address", control=True
            )
        except ControlBroken as error:
            raise MissingCapability(
                f"the target does not report the client's address: {first_line(error)}", ECHO
            ) from None
        clients_seen = {
            observation.seen_client for rounds in answers_by_path.values() for observation in rounds
        }
        if "" in clients_seen:
            raise MissingCapability(
                "the target beyond the cluster does not report the client's address", ECHO
            )
        other_addresses = clients_seen - {node.node_address}
        if other_addresses:
            so = (
                f"{node.node} ({node.node_address}) appears to the target as "
                f"{', '.join(sorted(other_addresses))}"
            )
            raise MissingCapability(
                f"a device beyond the nodes translates addresses, too: {so}",
                "name a target that receives nodes' own addresses: --external-target",
            )
        paths = [(client, self._there(protocol)) for client in clients]
        self.expect.sources(
            Paths(paths, open=True, because=because), are=lambda client: [client.node_address]
        )

    def source_of(self, client: Workload) -> str:
        """Return the source address that the target receives from a pod by TCP. Return an empty
        string if no target was named, or if the target does not report its client's address."""
        if self.outside is None:
            return ""
        attempt = self.expect.attempt(client, self._there("tcp"), Kind.HTTP)
        (observation,) = self.expect.prober.observe([attempt])
        return observation.seen_client

    def ping_passes(self, pod_pairs: PodPairs, *, because: str) -> None:
        """Expect each Linux pod's ping of the other pod of its pair to be answered.

        Raise ControlBroken if a ping is not answered: if networks drop ICMP, Windows' pings show
        nothing.
        """
        so = f"ping does not pass between Linux pods either, so an unanswered ping of a Windows pod proves nothing ({because})"
        self.before(pod_pairs, so)

    def ping(
        self,
        pod_pairs: PodPairs,
        *,
        because: str,
        want: bool = True,
        meanwhile: Callable[[], object] = list,
    ) -> None:
        """Expect each pod's ping of its peer to be answered, at the first or a later attempt.

        Without ``want``, expect no ping to be answered: an answer means that the path is not
        closed. In this case the path was open before (:meth:`before`), so no address needs to be
        resolved any more, and each ping sends only one request. ``meanwhile`` runs while the pings
        run; an exception that it raises is raised, too.
        """
        began = time.monotonic()
        asked = [(source, there.address) for source, there in pod_pairs]
        with ThreadPoolExecutor(1, thread_name_prefix="pings") as pool:
            pings = pool.submit(self._pings, asked, *(REPLY if want else SILENCE))
            meanwhile()
        world = self.expect.context.world

        def judge(case: tuple[PodPair, Future[list[_PingOutput]]]) -> Judged:
            (source, there), ran = case
            outputs = self._outputs_of(source, ran)
            if outputs[-1].replied is want:
                return f"{because}; {PING_UNTOLD}"
            text = self._explain(source, there, outputs, because)
            wrong: Exception = Nonconformance(text)
            if by := world.others.excuse(
                source, there.tcp(0), "closed" if want else "open", protocol="ICMP"
            ):
                wrong = owners.decided(world.others, text, by)
            elif want and (by := world.runs.excuse([source.node, there.node], began)):
                wrong = owners.decided(world.runs, text, by)
            return unless_changed(self.expect, [source, there], wrong)

        ran = zip(pod_pairs, pings.result(), strict=True)
        self.check("open" if want else "closed", [(*result[0], result) for result in ran], judge)

    def before(self, pod_pairs: PodPairs, so: str = BEFORE) -> None:
        """Expect each ping to be answered before a policy is created. Otherwise raise ControlBroken
        with the consequence (``so``)."""
        pings = self._pings([(source, there.address) for source, there in pod_pairs], *REPLY)
        for (source, there), ran in zip(pod_pairs, pings, strict=True):
            self._demand_reply(source, there, self._outputs_of(source, ran), so, LOOK_AT_ICMP)

    def under_icmp_rules(
        self,
        part: str,
        *,
        linux: PodPairs,
        skipped: PodPairs,
        kept: PodPairs,
        allowed: PodPairs,
        because: str,
    ) -> None:
        """Decide whether Windows ignores a rule of the policy that admits pings on Linux.

        ``linux``: pairs of Linux pods that this rule admits; raise ControlBroken if a ping is not
        answered. ``skipped``: pairs with Windows pods that this rule should admit: CONFIRMED
        without an answer, LIFTED with an answer. ``kept``: pairs that no rule admits: VIOLATED if a
        ping is answered. ``allowed``: pairs that a rule only about ICMP admits; they decide the
        claim's part ``ICMP alone``.
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
        so = (
            "the Linux pod does not answer under the rule, so a Windows pod's silence shows nothing"
        )
        for source, there in linux:
            self._demand_reply(
                source, there, self._outputs_of(source, ran[source, there]), so, LOOK_AT_ICMP
            )

        def judge(pair: PodPair) -> Judged:
            outputs = self._outputs_of(pair[0], ran[pair])
            reason = f"{because}; {PING_UNTOLD}"
            replied = outputs[-1].replied
            if pair in skipped:
                return Ruling(
                    f"{outputs[-1]}, although {reason}" if replied else because,
                    of_limitation(replied),
                )
            if replied == (pair in allowed):
                return reason if replied else because
            return unless_changed(
                self.expect, pair, Nonconformance(self._explain(*pair, outputs, because))
            )

        context = self.expect.context
        with (
            Check(context.of_part("ICMP alone"), "open") as opened,
            Check(context.of_part(part), "closed") as shut,
        ):
            shut.each([(*pair, pair) for pair in silent], judge)
            opened.each([(*pair, pair) for pair in allowed], judge)

    def do_not_ping(self, sources: Sequence[Workload], *, because: str, beside: Workload) -> None:
        """Expect no answer to any ping from these pods to an address outside the cluster. If a ping
        is answered, the claim is LIFTED.

        Raise ControlBroken if the target does not answer the ping of ``beside``, a Linux pod,
        afterwards.
        """
        address, _ = self._target
        pings = self._pings([(source, address) for source in sources], ECHOES)
        (control,) = at_once([partial(self._answers, beside)])

        def judge(case: tuple[Workload, Future[list[_PingOutput]]]) -> Judged:
            source, ran = case
            outputs = self._outputs_of(source, ran)
            if outputs[-1].replied:
                text = (
                    f"{source.label} -> {address}  {outputs[-1]}, although {because}; {PING_UNTOLD}"
                )
                return Ruling(text, ClaimVerdict.LIFTED)
            control.result()
            return because

        ran = zip(sources, pings, strict=True)
        self.check("closed", [(result[0], None, result) for result in ran], judge)

    def _answers(self, linux: Workload) -> None:
        """Raise ControlBroken if the target does not answer the ping of a Linux pod."""
        address, _ = self._target
        (ran,) = self._pings([(linux, address)], *REPLY)
        self._demand_reply(
            linux,
            address,
            self._outputs_of(linux, ran),
            "a target that answers no ping shows nothing",
            "name another target with --external-target",
        )

    def _demand_reply(
        self,
        linux: Workload,
        there: Workload | str,
        outputs: Sequence[_PingOutput],
        so: str,
        do: str,
    ) -> None:
        if not outputs[-1].replied:
            text = message.of_control(
                replace(
                    self._explain(linux, there, outputs),
                    so=so,
                    lines={"command": outputs[-1].command, "do": do},
                )
            )
            raise ControlBroken(text, control="ping from a Linux pod")

    def _pings(
        self, pings: Sequence[tuple[Workload, str]], *echoes: int
    ) -> list[Future[list[_PingOutput]]]:
        """Start pings from each pod to its address, all at once, and return their outputs.

        ``echoes``: the number of echo requests of the first ping, and of each later ping.
        """
        return at_once(
            [partial(self._until_answered, source, address, *echoes) for source, address in pings]
        )

    def _until_answered(
        self, source: Workload, address: str, first: int, *others: int
    ) -> list[_PingOutput]:
        """Ping until a ping is answered or could not be sent, or until as many pings as must agree
        had no answer."""
        outputs = [self._ping(source, address, first)]
        while outputs[-1].silent and len(outputs) < self.expect.timings.of(source.os).agree:
            outputs.append(self._ping(source, address, *others or (first,)))
        return outputs

    def _outputs_of(self, source: Workload, ran: Future[list[_PingOutput]]) -> list[_PingOutput]:
        """Return the output of one pod's pings. Raise ProbeBroken if a ping did not run."""
        outputs = ran.result()
        for ping in outputs:
            self.expect.context.sink.attach(
                f"ping in {source.role}", f"$ {ping.command}\n{ping.printed}\n-> {ping.exit_code}"
            )
        last = outputs[-1]
        if not last.pinged:
            raise ProbeBroken(
                f"{source.label} -> {last.address}  {last.command}: no ping was sent, output: {last.text[:300] or 'nothing'}"
            )
        return outputs

    @property
    def _target(self) -> tuple[str, int]:
        if self.outside is None:
            raise MissingCapability(
                "no target beyond the cluster was named", "name a target: --external-target ADDRESS"
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

    def _ping(self, source: Workload, address: str, echoes: int) -> _PingOutput:
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
        return _PingOutput(
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

    def _explain(
        self,
        source: Workload,
        there: Workload | str,
        outputs: Sequence[_PingOutput],
        because: str = "",
    ) -> Explanation:
        """Return the explanation of failed pings. ``there``: the target, either a pod or an
        address."""
        address, node = (
            (f"{there.address} ({there.label})", there.node)
            if isinstance(there, Workload)
            else (there, there)
        )
        expected, observed = (
            ("no reply", "a reply") if outputs[-1].replied else ("a reply", "no reply")
        )
        return Explanation(
            claims=self.expect.context.claims,
            path=f"{source.label} -> {address}",
            where=f"{source.node} to {node} (ping)",
            expected=expected,
            observed=observed,
            tries=sum(item.echoes for item in outputs),
            seconds=sum(item.seconds for item in outputs),
            lines={
                "because": because,
                "command": f"{outputs[-1].command}, {counted(len(outputs), 'time')}",
                "printed": outputs[-1].text[:300],
                "do": LOOK_AT_ICMP,
            },
        )


def asked_for(pools: Mapping[str, Fact[str]]) -> None:
    """Raise MissingCapability unless each of these pools has natOutgoing."""
    for name, natted in pools.items():
        if natted.value != "True":
            raise MissingCapability(
                f"no outgoing NAT is configured: {name} is not true ({natted.source})",
                "set natOutgoing for every enabled IPPool",
            )


@dataclass(frozen=True, kw_only=True)
class _PingOutput:
    """A ping command that has ended."""

    address: str
    echoes: int
    command: str
    printed: str
    text: str
    """The printed text, in one line."""
    exit_code: int
    pinged: bool
    """True if the command ran to its end and printed a ping's summary."""
    replied: bool
    seconds: float

    @property
    def silent(self) -> bool:
        """Return whether the source sent pings and got no answer."""
        return self.pinged and not self.replied

    def __str__(self) -> str:
        return f"{self.command}: {'answered' if self.replied else 'not answered'}"
