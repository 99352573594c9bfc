"""Felix that does not run on a node is the first line of whatever fails there."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from conformance.errors import Nonconformance, SuiteError, first_line
from conformance.evidence.packet_capture import ends_of
from conformance.expect.explain import message
from conformance.expect.explain.advice import pods_on
from conformance.expect.felix_runs import DOWN


def nodes_of(error: BaseException, names: Sequence[str]) -> list[str]:
    """The nodes that a failure is about: of the ends of its wrong paths, or its only one, else
    those that it names."""
    only = {
        (one.attempt.source.uid, one.attempt.target): one.attempt
        for one in getattr(error, "seen", ())
    }
    ways = getattr(error, "paths", ()) or (only.values() if len(only) == 1 else ())
    ends = [end.node for path in ways for end in ends_of(path)]
    for text in (first_line(error), str(error)):
        if not ends:
            ends = [
                name for name in names if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text)
            ]
    return list(dict.fromkeys(ends))


def say_first(
    error: BaseException, names: Sequence[str], down: Callable[[Sequence[str]], Mapping[str, str]]
) -> str:
    """Put it before what an error says, and return it; empty: Felix runs there, or this cannot be
    told.

    ``names``: of the cluster's nodes.  ``down``: on which of some nodes it does not run, and what
    it does instead."""
    if not isinstance(error, Nonconformance | SuiteError):
        return ""
    try:
        found = down(nodes_of(error, names))
    except SuiteError:
        return ""
    if not found:
        return ""
    node, told = next(iter(found.items()))
    cause = DOWN.format(node=node)
    if cause in first_line(error):
        return cause
    if error.explanation is not None:
        lines = {"Felix": f"{node}: {told}"} | error.explanation.lines
        error.explanation = replace(
            error.explanation, cause=cause, lines=lines | {"do": pods_on(node)}
        )
        text = str(error.explanation)
    else:
        text = message.explained(str(error), by=f"{cause} ({told})")
    error.args = (text, *error.args[1:])
    return cause
