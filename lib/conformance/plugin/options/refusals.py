# SPDX-License-Identifier: Apache-2.0
"""Combinations and values of options that make no sense, each with its message."""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from conformance.catalog import Version
from conformance.plugin.options.repeat import written
from conformance.run.choice import Choice
from conformance.settings import (
    prefix_problem,
)

T = TypeVar("T")


def parsed(parse: Callable[[str], T], text: str | None) -> T | None:
    """Return the parsed value of an option; None if it was not given."""
    return parse(text) if text else None


def _below_one(number: int | None) -> bool:
    return number is not None and number < 1


def _needs_permission(option: Any, choice: Choice) -> bool:
    return not (option.allow_disruptive or option.allow_cluster_disruptive or choice.own_lab)


def _version_problem(text: str | None) -> str:
    try:
        parsed(Version.parse, text)
    except ValueError as error:
        return str(error)
    return ""


def _gate(option: Any) -> str:
    """Return the first option that requires a gate; an empty string if none does."""
    return next((written(name) for name in ("require", "baseline") if getattr(option, name)), "")


def _not_with_prefix(option: Any) -> str:
    """Return the option that ``--namespaces-prefix`` rules out; an empty string if no such option
    is given."""
    names = ("allow_disruptive", "allow_cluster_disruptive", "calicoctl", "keep")
    given = (written(name) for name in names if getattr(option, name))
    return next(given, "") if option.namespaces_prefix else ""


REFUSALS: Sequence[tuple[Callable[[Any, Choice], object], str]] = (
    (
        lambda option, choice: option.allow_disruptive and option.no_disruptive,
        "--allow-disruptive and --no-disruptive contradict each other: leave one out",
    ),
    (
        lambda option, choice: option.allow_cluster_disruptive and option.no_disruptive,
        "--allow-cluster-disruptive and --no-disruptive contradict each other: leave one out",
    ),
    (
        lambda option, choice: _below_one(option.max_disrupted_nodes),
        "--max-disrupted-nodes {max_disrupted_nodes}: expected at least 1",
    ),
    (
        lambda option, choice: option.disruptive_node and _needs_permission(option, choice),
        "--disruptive-node {disruptive_node} only chooses the node; "
        "add --allow-disruptive to permit the test",
    ),
    (
        lambda option, choice: option.allow_node_fill and _needs_permission(option, choice),
        "--allow-node-fill changes a whole node: add --allow-disruptive to permit that",
    ),
    (
        lambda option, choice: option.allow_node_fill and option.no_disruptive,
        "--allow-node-fill and --no-disruptive contradict each other: leave one out",
    ),
    (
        lambda option, choice: option.disruptive_node and option.no_disruptive,
        "--disruptive-node and --no-disruptive contradict each other: leave one out",
    ),
    (
        lambda option, choice: _version_problem(option.calico_version),
        "--calico-version {calico_version}: {problem}",
    ),
    (
        lambda option, choice: _version_problem(option.windows_calico_version),
        "--windows-calico-version {windows_calico_version}: {problem}",
    ),
    (
        lambda option, choice: (
            option.every_node and (option.nodes or option.node_selector or option.max_nodes_per_os)
        ),
        "--every-node covers all nodes: leave out --nodes, --node-selector and --max-nodes-per-os",
    ),
    (
        lambda option, choice: _below_one(option.max_nodes_per_os),
        "--max-nodes-per-os {max_nodes_per_os}: expected at least 1",
    ),
    (
        lambda option, choice: _below_one(option.workers_per_windows_node),
        "--workers-per-windows-node {workers_per_windows_node}: expected at least 1",
    ),
    (
        lambda option, choice: option.calicoctl and not Path(option.calicoctl).is_file(),
        "--calicoctl {calicoctl}: no such file",
    ),
    (
        lambda option, choice: option.calicoctl and not os.access(option.calicoctl, os.X_OK),
        "--calicoctl {calicoctl}: this file is not executable; chmod +x makes it executable",
    ),
    (
        lambda option, choice: option.max_minutes is not None and not option.max_minutes > 0,
        "--max-minutes {max_minutes:g}: expected more than 0",
    ),
    (
        lambda option, choice: (
            isinstance(getattr(option, "numprocesses", None), int) and option.numprocesses < 0
        ),
        "-n {numprocesses}: expected 0 or more workers",
    ),
    (
        lambda option, choice: option.quick and option.smoke,
        "--quick and --smoke choose different tests: leave one out",
    ),
    (
        lambda option, choice: option.quick and _gate(option),
        "--quick runs a part of the tests, and {problem} needs all: leave one of them out",
    ),
    (
        lambda option, choice: option.shard and not shard(option.shard),
        "--shard {shard}: expected the part and the number of parts, such as 1/3",
    ),
    (
        lambda option, choice: (
            option.shard and (option.allow_disruptive or option.allow_cluster_disruptive)
        ),
        "--shard {shard} runs no disruptive test: leave out --allow-disruptive, and run "
        "disruptive tests in a run of their own",
    ),
    (
        lambda option, choice: option.shard and _gate(option),
        "--shard {shard} runs a part of the tests, and {problem} needs all: leave it out, and "
        "judge the merged report (calico-conformance gate)",
    ),
    (
        lambda option, choice: option.run and not (option.restore or option.janitor),
        "--run {run} names the run whose changes to restore: add --restore",
    ),
    (
        lambda option, choice: (
            option.namespaces_prefix and prefix_problem(option.namespaces_prefix)
        ),
        "--namespaces-prefix {namespaces_prefix}: {problem}",
    ),
    (
        lambda option, choice: option.namespaces_prefix and choice.own_lab,
        "--namespaces-prefix is not for the run's own lab: name a cluster by --kubeconfig=PATH",
    ),
    (
        lambda option, choice: _not_with_prefix(option),
        "{problem} and --namespaces-prefix contradict each other: a run in prepared "
        "namespaces changes nothing else and leaves them empty; leave one out",
    ),
)
"""The conditions under which options make no sense, each with its message; the first condition that
holds counts. A message may contain option names as placeholders, and the placeholder ``problem``
for the value that the condition returned."""


def shard(text: str) -> tuple[int, int] | None:
    """Return the part and the number of parts that ``--shard`` names; None if it names none."""
    found = re.fullmatch(r"([1-9]\d{0,2})/([1-9]\d{0,2})", text)
    if found is None or int(found[1]) > int(found[2]):
        return None
    return int(found[1]), int(found[2])
