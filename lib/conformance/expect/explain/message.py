# SPDX-License-Identifier: Apache-2.0
"""What a failed expectation says: a first line that is enough at 3 a.m., then why, what was seen, what to do.

Builds an :class:`Explanation`, or text, from its arguments and nothing else; at most twelve lines, everything longer is
an attachment.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from conformance.expect.engine.answered import altered, unexpected_backend
from conformance.model.attempt import Attempt
from conformance.model.counted import counted
from conformance.model.explanation import Explanation
from conformance.model.observation import Observation, Verdict

MARK = "<---- WRONG"
CONTROL = "control failed: "
Text = TypeVar("Text", str, Explanation)


def explanation(
    claims: Sequence[str],
    attempt: Attempt,
    expected: str,
    seen: Sequence[Observation],
    seconds: float,
    *,
    because: str = "",
    further: Mapping[str, str] | None = None,
    observed: str = "",
    so: str = "",
    do: str = "",
) -> Explanation:
    """What was expected of one attempt and seen of it; ``observed``: where what is wrong is not the verdict.

    Lines below the first: why that is expected and what was seen last, where ``because`` is given; ``further`` ones in
    order (policies, controls); what to do.  ``so``: what the first line ends with.
    """
    lines = {"because": because, "observed": details(seen)} if because else {}
    return Explanation(
        claims=tuple(claims),
        path=attempt.label,
        expected=expected,
        observed=observed or summary(seen),
        tries=sum(observation.tries for observation in seen),
        seconds=seconds,
        where=attempt.nodes,
        so=so,
        lines=lines | dict(further or {}) | ({"do": do} if do else {}),
    )


def summary(seen: Sequence[Observation]) -> str:
    """The verdicts of some observations of one attempt: ``CONNECTED``, or ``TIMED_OUT 7 times, last CONNECTED``.

    What a name resolved to belongs to the verdict, who answered in place of a backend, and why a question failed:
    ``RESOLVED to 203.0.113.9``, ``an answer of ns/another-pod``, ``DNS_FAILED (REFUSED from 10.96.0.10:53)``.
    """
    return tally([_word(observation) for observation in seen]) if seen else "nothing"


def tally(words: Sequence[str]) -> str:
    """At least one word, each with how often it was said, and the newest: ``A 7 times, B 1 time, last B``."""
    counts = Counter(words)
    if len(counts) == 1:
        return words[-1]
    parts = [f"{word} {counted(count, 'time', 'times')}" for word, count in counts.most_common()]
    return f"{', '.join(parts)}, last {words[-1]}"


def details(seen: Sequence[Observation]) -> str:
    """The newest observation's own words."""
    if not seen:
        return "nothing was observed"
    last = seen[-1]
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
    """A message about a control: ``POL-1  control before the change failed: ns/client ...``, the ids first.

    ``when``: words that say which control it is; they take the place of what was said of it before.
    """
    kind = f"control {when} failed: " if when else CONTROL
    if isinstance(text, Explanation):
        return replace(text, prefix=f"{kind}{text.prefix.removeprefix(CONTROL)}")
    ids, rest = _ids(text)
    return f"{ids}{kind}{rest.removeprefix(CONTROL)}"


def explained(text: Text, by: str) -> Text:
    """A message about what was seen, with what explains it: ``POL-1  pod ns/a restarted, while this was seen: ...``."""
    if isinstance(text, Explanation):
        return replace(text, prefix=f"{by}, while this was seen: {text.prefix}", cause="", where="")
    ids, rest = _ids(text)
    return f"{ids}{by}, while this was seen: {rest}"


def _ids(text: str) -> tuple[str, str]:
    """What a message begins with, up to what is said of it, and the rest; empty: it begins without ids."""
    found = re.match(r"(?:(?:[A-Z]+-\d+(?:, )?)+|no claim)(?:  |: )", text)
    return (found[0], text[found.end() :]) if found else ("", text)


def table(rows: Sequence[tuple[str, str, str, bool]]) -> str:
    """Expected and observed side by side: (what, expected, observed, right); wrong rows are marked."""
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
        return "an answer of other bytes than were sent"
    code = f" ({observation.rcode})" if observation.rcode else ""
    return f"an answer of {other}" if other else f"{observation.verdict.value}{code}{answers}"
