# SPDX-License-Identifier: Apache-2.0
"""Puts the line that Felix does not run before the message of a failure, if Felix does not run on a
node of the failure."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from conformance.errors import Nonconformance, SuiteError, first_line
from conformance.evidence.packet_capture import ends_of
from conformance.expect.explain import message
from conformance.expect.explain.advice import DOWN, pods_on


def nodes_of(error: BaseException, names: Sequence[str]) -> list[str]:
    """Return the nodes that a failure is about.

    These are the nodes at the ends of the failure's wrong paths, or of its only path. A failure
    without such paths is about the nodes that its text names.
    """
    attempts = {
        (item.attempt.source.uid, item.attempt.target): item.attempt
        for item in getattr(error, "observations", ())
    }
    paths = getattr(error, "paths", ()) or (attempts.values() if len(attempts) == 1 else ())
    nodes = [end.node for path in paths for end in ends_of(path)]
    for text in (first_line(error), str(error)):
        nodes = nodes or [
            name for name in names if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text)
        ]
    return list(dict.fromkeys(nodes))


def name_felix(
    error: BaseException, names: Sequence[str], down: Callable[[Sequence[str]], Mapping[str, str]]
) -> str:
    """If Felix does not run on a node of an error, put a line about this before the error's
    message, and return the line.

    Return an empty string if Felix runs on the nodes that the error is about, or if its state is
    not known. ``names``: the cluster's nodes. ``down`` returns those of the given nodes on which
    Felix does not run, each with the state of Felix.
    """
    if not isinstance(error, Nonconformance | SuiteError):
        return ""
    try:
        found = down(nodes_of(error, names))
    except SuiteError:
        return ""
    if not found:
        return ""
    node, state = next(iter(found.items()))
    cause = DOWN.format(node=node)
    if cause in first_line(error):
        return cause
    if error.explanation is not None:
        lines = {"Felix": f"{node}: {state}", **error.explanation.lines, "do": pods_on(node)}
        error.explanation = replace(error.explanation, cause=cause, lines=lines)
        text = str(error.explanation)
    else:
        text = message.explained(str(error), by=f"{cause} ({state})")
    error.args = (text, *error.args[1:])
    return cause
