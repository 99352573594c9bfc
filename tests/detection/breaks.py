# SPDX-License-Identifier: Apache-2.0
"""Ways in which a probe, or something that it needs, can break while the judge asks, and the
expected name of each break.

The wrong-verdict table (wrong_verdicts.py) reads them; this module injects nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Span = Literal["lasting", "passing"]
"""``lasting``: until the judge has decided; ``passing``: the break happens once, or ends while the
judge still asks."""


@dataclass(frozen=True, kw_only=True)
class Break:
    """A way in which something breaks."""

    name: str
    what: str
    fault: str = ""
    """The name of the lab's fault; empty: the table itself does it."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    scope: Literal["source", "namespace", "target node", "source node", "name", "own"] = "source"
    """The place of the fault: the source pod's execs, its namespace's requests, a node, or the
    target's name."""
    once: bool = True
    """True: passing means ``first=1``. False: the fault is healed while the judge still asks."""
    named: str = ""
    """A regular expression that the first line of an INCONCLUSIVE must match; empty: an
    INCONCLUSIVE is not allowed."""
    deviation: str = ""
    """A regular expression for the first line of a correct VIOLATED: the cluster itself is wrong
    then, not the probe."""
    deviates: Mapping[str, str] = field(default_factory=dict)
    """The properties (``span``, ``expected``, ``path``) of the cases in which the cluster itself is
    wrong."""
    by_name: bool = False
    """The client connects to the name of the target's Service."""


_NOT_HEARD = r"sent no hello|nothing was received from it|was not answered"

BREAKS = (
    Break(
        name="exec hangs",
        what="exec does not start, or nothing arrives any more from one that runs",
        fault="exec-hangs",
        named=_NOT_HEARD,
    ),
    Break(
        name="API 500",
        what="the API server answers 500",
        fault="api-500",
        parameters={"seconds": "600"},
        scope="namespace",
        named=r"\b500\b",
    ),
    Break(
        name="API 429",
        what="the API server answers 429",
        fault="api-429",
        parameters={"seconds": "600"},
        scope="namespace",
        named=r"\b429\b",
    ),
    Break(name="lost status", what="the exit status of an exec never arrives", fault="exec-loses-status"),
    Break(
        name="no output",
        what="nothing that the probe writes arrives",
        fault="exec-empty-output",
        named=_NOT_HEARD,
    ),
    Break(
        name="half output",
        what="half of each piece that the probe writes arrives",
        fault="exec-half-output",
        named=r"cut short|garbled",
    ),
    Break(
        name="binary missing",
        what="there is no such program in the container",
        fault="exec-missing-binary",
        named=r"did not start: .*(executable file not found|cannot find the file)",
    ),
    Break(
        name="wrong binary",
        what="another program answers, with exit status 0",
        fault="exec-wrong-binary",
        named=r"another program",
    ),
    Break(
        name="agent killed",
        what="the process in the pod is killed while it probes",
        fault="exec-killed",
        named=r"status 137",
    ),
    Break(
        name="websocket cut",
        what="the connection of the exec is cut at its next output",
        fault="exec-cut",
        named=r"was cut|connection broke",
    ),
    Break(
        name="refused instead of dropped",
        what="policy answers what it denies with a TCP reset",
        fault="policy-refuses",
        scope="target node",
        once=False,
        deviation=r"observed .*REFUSED",
        deviates={"span": "lasting", "expected": "deny", "path": "denied"},
    ),
    Break(
        name="DNS silent",
        what="the source's questions to the cluster's DNS get no answer; the target is called by name",
        fault="dns-silent",
        scope="source node",
        once=False,
        by_name=True,
        named=r"DNS_FAILED",
        deviation=r"expected CONNECTED, observed .*DNS_FAILED",
        deviates={"span": "lasting", "expected": "allow"},
    ),
    Break(
        name="DNS wrong",
        what="the target's name leads to an address where nothing is",
        fault="dns-wrong",
        scope="name",
        once=False,
        by_name=True,
        named=r"203\.0\.113\.9",
        deviation=r"expected CONNECTED, observed .*203\.0\.113\.9",
        deviates={"span": "lasting", "expected": "allow"},
    ),
    Break(
        name="policy 5 s late",
        what="the policy change that is expected takes effect 5 s late, below or above the budget",
        fault="policy-late",
        parameters={"seconds": "5"},
        scope="own",
        deviation=r"expected (TIMED_OUT, observed CONNECTED|CONNECTED, observed TIMED_OUT)",
        deviates={"span": "lasting"},
    ),
    Break(
        name="pod restarted",
        what="the source's or the target's container is killed and started again while the judge asks",
        fault="pod-restarts",
        scope="own",
        named=r"restarted|is not running: ",
    ),
    Break(
        name="clock jump",
        what="the judge's wall clock jumps an hour forward or back while it asks",
        scope="own",
    ),
)  # fmt: skip
FAULTS = {item.fault for item in BREAKS if item.fault}
"""The faults of the lab that the table injects."""
