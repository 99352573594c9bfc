# SPDX-License-Identifier: Apache-2.0
"""Rules that Windows leaves out, each about a port of its own of the same servers, so that several share a change.

The friend is whom a rule lets in, the stranger whom it keeps out; Linux servers are the control.  Beside each port
stands the echo's, which a rule without limitation opens for the friend alone: the policies' sign of being in force.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from conformance.expect.limitation import LimitedCase
from conformance.expect.traffic import Expect, Policies
from conformance.model.endpoint import Pair
from conformance.pods.groups import Group
from conformance.pods.roles import ECHO_PORT
from conformance.pods.worker_pods import WorkerPods

Parts = Mapping[str, int]
"""Part of a claim to the port that its rule is about."""


@dataclass
class Limits:
    """The expectations of one test about rules that Windows leaves out."""

    expect: Expect
    pods: WorkerPods

    @cached_property
    def friend(self) -> Group:
        """A Linux client."""
        return Group([self.pods.client("linux")])

    @cached_property
    def stranger(self) -> Group:
        """A Windows client."""
        return Group([self.pods.client("windows")])

    @cached_property
    def outsider(self) -> Group:
        """A Linux client of another namespace, whom no rule is about."""
        return Group(self.pods.get("elsewhere/linux-client"))

    @cached_property
    def windows(self) -> Group:
        """A server of each Windows build."""
        return self.pods.servers("windows").one_per_build()

    @cached_property
    def linux(self) -> Group:
        """A Linux server."""
        return self.pods.servers("linux").one_per_os()

    def allowed(self, claim: str, parts: Parts) -> list[LimitedCase]:
        """The friend is let in by a rule that Windows leaves out: there nobody enters."""
        return [
            LimitedCase(
                claim=claim,
                part=part,
                as_documented=self._from(self.friend, self.windows, port, is_open=False),
                both=self._from(self.stranger, self.windows, port, is_open=False),
                witness=self._control(port),
            )
            for part, port in parts.items()
        ]

    def denied(self, claim: str, parts: Parts) -> list[LimitedCase]:
        """The stranger is kept out by a rule that Windows leaves out; there the next, for everybody, lets it in."""
        return [
            LimitedCase(
                claim=claim,
                part=part,
                as_documented=self._from(self.stranger, self.windows, port, is_open=True),
                both=self._from(self.friend, self.windows, port, is_open=True),
                witness=self._control(port),
            )
            for part, port in parts.items()
        ]

    def passed_over(self, claim: str, parts: Parts) -> list[LimitedCase]:
        """A rule that decides nothing stands before one that lets the friend in, and nobody else."""
        return [
            LimitedCase(
                claim=claim,
                part=part,
                both={
                    **self._from(self.friend, self.windows, port, is_open=True),
                    **self._from(self.stranger, self.windows, port, is_open=False),
                },
                witness=self._control(port),
            )
            for part, port in parts.items()
        ]

    def untouched(self, claim: str, parts: Parts) -> list[LimitedCase]:
        """Nobody is kept out by a policy that is for no pod, of either system."""
        return self._everybody(claim, parts, is_open=True)

    def closed(self, claim: str, parts: Parts) -> list[LimitedCase]:
        """Everybody is kept out."""
        return self._everybody(claim, parts, is_open=False)

    def unlimited(self, claim: str, parts: Parts) -> list[LimitedCase]:
        """The friend is let in for less than what it asks, and on Windows for all; what Linux does is not said."""
        return [
            LimitedCase(
                claim=claim,
                part=part,
                as_documented=self._from(self.friend, self.windows, port, is_open=True),
                both=self._from(self.stranger, self.windows, port, is_open=False),
                witness=self._sign,
            )
            for part, port in parts.items()
        ]

    def under(
        self, *policies: Policies, cases: Iterable[Iterable[LimitedCase]], because: str
    ) -> None:
        """Each case is as documented under these policies, lifted or VIOLATED (:meth:`Expect.limitations`)."""
        self.expect.limitations(
            *policies, cases=[case for several in cases for case in several], because=because
        )

    def in_force(self, *policies: Policies, because: str) -> None:
        """These policies are in force: the friend enters by the echo's port, and the stranger does not.

        Raises as :meth:`Expect.under`, what is wrong then being no part's.
        """
        opened = [pair for pair, is_open in self._sign.items() if is_open]
        self.expect.under(
            *policies,
            open=opened,
            closed=[pair for pair, is_open in self._sign.items() if not is_open],
            because=because,
        )

    def _everybody(self, claim: str, parts: Parts, *, is_open: bool) -> list[LimitedCase]:
        found = {
            part: self._from(self.stranger, self.linux + self.windows, port, is_open=is_open)
            for part, port in parts.items()
        }
        return [
            LimitedCase(claim=claim, part=part, both=both, witness=self._sign)
            for part, both in found.items()
        ]

    @property
    def _sign(self) -> dict[Pair, bool]:
        """The policies are in force at each server, and the stranger has a network."""
        return {
            **self._from(self.friend, self.linux + self.windows, ECHO_PORT, is_open=True),
            **self._from(self.stranger, self.linux + self.windows, ECHO_PORT, is_open=False),
            **self._from(self.stranger, self.friend, ECHO_PORT, is_open=True),
        }

    def _control(self, port: int) -> dict[Pair, bool]:
        """The same, and the Linux server enforces the rule."""
        return {
            **self._sign,
            **self._from(self.friend, self.linux, port, is_open=True),
            **self._from(self.stranger, self.linux, port, is_open=False),
        }

    @staticmethod
    def _from(clients: Group, servers: Group, port: int, *, is_open: bool) -> dict[Pair, bool]:
        return dict.fromkeys(clients.to(servers).tcp(port), is_open)
