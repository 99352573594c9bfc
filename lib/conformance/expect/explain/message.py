# SPDX-License-Identifier: Apache-2.0
"""The message of a failed expectation: a first line that is enough at 3 a.m., then cause,
observations and advice.

The functions build an :class:`Explanation`, or text, from their arguments alone. A message has at
most twelve lines; longer texts are attachments.
"""

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from conformance.expect.engine.answered import altered, unexpected_backend
from conformance.model.attempt import Attempt
from conformance.model.counted import counted
from conformance.model.explanation import Explanation
from conformance.model.moment import utc
from conformance.model.observation import Observation, Verdict

MARK = "<---- WRONG"
CONTROL = "control failed: "
Text = TypeVar("Text", str, Explanation)


def explanation(
    claims: Sequence[str],
    attempt: Attempt,
    expected: str,
    observations: Sequence[Observation],
    seconds: float,
    *,
    because: str = "",
    further: Mapping[str, str] | None = None,
    observed: str = "",
    so: str = "",
    do: str = "",
) -> Explanation:
    """Explain the expectation and the observation of an attempt; ``observed`` replaces the observed
    verdict.

    Below the first line come the reason of the expectation (``because``) with the newest
    observation, the ``further`` lines in their order (policies, controls), and the advice (``do``).
    ``so``: the end of the first line.
    """
    lines = {"because": because, "observed": details(observations)} if because else {}
    return Explanation(
        claims=tuple(claims),
        path=attempt.label,
        expected=expected,
        observed=observed or summary(observations),
        tries=sum(observation.tries for observation in observations),
        seconds=seconds,
        since=since(observations),
        where=attempt.nodes,
        so=so,
        lines=lines | dict(further or {}) | ({"do": do} if do else {}),
    )


def since(observations: Sequence[Observation]) -> str:
    """Return the time since which all observations have had the newest verdict. Return an empty
    string if there are no observations."""
    alike = itertools.takewhile(
        lambda observation: observation.verdict is observations[-1].verdict,
        reversed(observations),
    )
    return utc(min((observation.at for observation in alike), default=0.0))


def summary(observations: Sequence[Observation]) -> str:
    """Return the verdicts of an attempt's observations: ``CONNECTED``, or ``TIMED_OUT 7 times, last
    CONNECTED``.

    A verdict includes the address to which a name resolved, the pod that answered in place of a
    backend, and the reason why a DNS query failed: ``RESOLVED to 203.0.113.9``, ``an answer of
    ns/another-pod``, ``DNS_FAILED (REFUSED from 10.96.0.10:53)``.
    """
    return (
        tally([_word(observation) for observation in observations]) if observations else "nothing"
    )


def tally(words: Sequence[str]) -> str:
    """Return each word with its count, and the newest word: ``A 7 times, B 1 time, last B``.

    ``words`` must not be empty.
    """
    counts = Counter(words)
    if len(counts) == 1:
        return words[-1]
    parts = [f"{word} {counted(count, 'time', 'times')}" for word, count in counts.most_common()]
    return f"{', '.join(parts)}, last {words[-1]}"


def details(observations: Sequence[Observation]) -> str:
    """Return the newest observation in the probe's words."""
    if not observations:
        return "nothing was observed"
    last = observations[-1]
    words = [f"{last.verdict.value} after {last.seconds * 1000:.0f} ms"]
    if last.detail:
        words.append(last.detail)
    if last.status is not None:
        words.append(f"HTTP {last.status}")
    if last.seen_client:
        words.append(f"the server saw {last.seen_client}")
    if last.served_by:
        words.append(f"served by {last.served_by}")
    if last.answers:
        words.append(f"answers {', '.join(last.answers)}")
    return "; ".join(words)


def of_control(text: Text, when: str = "") -> Text:
    """Return a message reworded as the failure of a control: ``POL-1 control before the change
    failed: ns/client ...``.

    ``when`` describes the control, and replaces an earlier description.
    """
    kind = f"control {when} failed: " if when else CONTROL
    if isinstance(text, Explanation):
        return replace(text, prefix=f"{kind}{text.prefix.removeprefix(CONTROL)}")
    ids, rest = _ids(text)
    return f"{ids}{kind}{rest.removeprefix(CONTROL)}"


def explained(text: Text, by: str) -> Text:
    """Return a message with its cause in front: ``POL-1 pod ns/a restarted; affected: ...``."""
    if isinstance(text, Explanation):
        return replace(text, prefix=f"{by}; affected: {text.prefix}", cause="", where="")
    ids, rest = _ids(text)
    return f"{ids}{by}; affected: {rest}"


def _ids(text: str) -> tuple[str, str]:
    """Split a message into the claim ids that it begins with, and the rest. The first text is empty
    if it begins without ids."""
    found = re.match(r"(?:(?:[A-Z]+-\d+(?:, )?)+|no claim)(?:  |: )", text)
    return (found[0], text[found.end() :]) if found else ("", text)


def table(rows: Sequence[tuple[str, str, str, bool]]) -> str:
    """Return rows of (what, expected, observed, right) as a table; wrong rows are marked."""
    what = max((len(row[0]) for row in rows), default=0)
    expected = max((len(row[1]) for row in rows), default=0)
    observed = max((len(row[2]) for row in rows), default=0)
    head = f"{'attempt':{what}}  {'expected':{max(expected, 8)}} | {'observed':{observed}}"
    lines = [
        f"{name:{what}}  {wanted:{max(expected, 8)}} | {found:{observed}}{'' if right else '  ' + MARK}".rstrip()
        for name, wanted, found, right in rows
    ]
    return "\n".join([head.rstrip(), *lines])


def _word(observation: Observation) -> str:
    answers = f" to {', '.join(sorted(observation.answers))}" if observation.answers else ""
    other = unexpected_backend(observation)
    if observation.verdict is Verdict.DNS_FAILED and observation.detail:
        why = observation.detail.partition(" for ")[0]
        within = (
            f" within {observation.attempt.give_up_after:g} s"
            if why.startswith("no answer")
            else ""
        )
        return f"{observation.verdict.value} ({why}{within})"
    if altered(observation):
        return "an answer with other bytes than were sent"
    code = f" ({observation.rcode})" if observation.rcode else ""
    return f"an answer of {other}" if other else f"{observation.verdict.value}{code}{answers}"
