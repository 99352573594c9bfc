# SPDX-License-Identifier: Apache-2.0
"""The causes of failures and undecided claims in a run, each with its claims and its evidence."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conformance.model.counted import counted
from conformance.model.explanation import LAYER, UNKNOWN
from conformance.report import summed_up
from conformance.report.commands import run_again


@dataclass(frozen=True)
class Cause:
    """A cause, with all claims that it makes fail or stay undecided."""

    text: str
    """The fault and its place; for a claim without a known cause, the first line of its failure."""
    claims: Sequence[Mapping[str, Any]]
    """The claims in the form of the report, the worst first."""
    tests: Sequence[Mapping[str, Any]]
    """The tests that failed for this cause, in the order in which they began."""
    again: str
    """The command that runs the claims again."""

    @property
    def verdict(self) -> str:
        """Return the worst verdict of the cause's claims."""
        return str(self.claims[0]["verdict"])

    @property
    def since(self) -> str:
        """Return the time of the cause's first observation, UTC, RFC 3339; empty if the time is not
        known."""
        observed = [self.explanation_of(test).get("since", "") for test in self.tests]
        begun = [test.get("started", "") for test in self.tests]
        return min(filter(None, observed), default=min(filter(None, begun), default=""))

    @property
    def explanation(self) -> Mapping[str, Any]:
        """Return the explanation of the first failure that has one; empty if none has."""
        return next(filter(None, map(self.explanation_of, self.tests)), {})

    @property
    def layer(self) -> str:
        """Return the layer that failed according to the evidence; empty if the evidence shows
        none."""
        found = [self.explanation_of(test).get("lines", {}).get(LAYER, "") for test in self.tests]
        concluded = sorted(filter(None, found), key=lambda line: line.startswith(UNKNOWN))
        return str(concluded[0]) if concluded else ""

    @property
    def observed(self) -> str:
        """Return expected and observed results; empty if the text already contains them."""
        found = self.explanation
        if not found.get("observed") or found["observed"] in self.text:
            return ""
        share = f", {found['share']}" if found.get("share") else ""
        return f"expected {found['expected']}, observed {found['observed']}{share}"

    @property
    def share(self) -> str:
        """Return ``2 claims violated, 1 inconclusive``."""
        counts = summed_up.counts(self.claims)
        return ", ".join(
            f"{counted(number, 'claim') if place == 0 else number} {word.lower()}"
            for place, (word, number) in enumerate(counts.items())
        )

    @staticmethod
    def explanation_of(test: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a test's explanation; empty if it has none."""
        return test.get("explanation") or {}


def of_report(plain: Mapping[str, Any]) -> list[Cause]:
    """Return the causes of a report, the worst first. Causes that let forbidden traffic pass come
    before all other causes."""
    tests = {test["test"]: test for test in plain.get("tests") or ()}
    return [
        Cause(
            text=text,
            claims=claims,
            tests=list(_failed(text, claims, tests)),
            again=run_again(claims, tests, plain["run"]["command"]),
        )
        for text, claims in summed_up.all_causes(plain)
    ]


def _failed(
    text: str,
    claims: Sequence[Mapping[str, Any]],
    tests: Mapping[str, Mapping[str, Any]],
) -> Iterator[Mapping[str, Any]]:
    """Yield the tests that failed for a cause, each once; if no test names the cause, all failed
    tests of its claims."""
    names = dict.fromkeys(
        result["test"]
        for claim in claims
        for result in claim["results"]
        if result["verdict"] == claim["verdict"] and result["test"] in tests
    )
    failed = sorted((tests[name] for name in names), key=lambda test: test.get("started", ""))
    yield from [test for test in failed if test.get("cause") == text] or failed
