# SPDX-License-Identifier: Apache-2.0
"""The tap of each seam of the lab costs little code in lib/.

A seam is a place through which messages of one kind pass, and at which a fault may change them. Its
tap is the code that a lab without faults would not need: what keeps the changes, what selects the
messages, and the statements at which messages pass. The change itself is a fault; it belongs to the
fault's own module, or to the tests that alone need it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from tools.size import statements

LIB = Path(__file__).parents[2] / "lib" / "hybridlab"
MOST = 60
"""The most statements of a tap, as ``tools.size`` counts them."""


@dataclass(frozen=True)
class Tap:
    """The code of a seam's tap."""

    passes: Mapping[str, str] = field(default_factory=dict)
    """Map a module to a regular expression of the statements through which messages pass, or which
    keep the seam."""
    whole: Mapping[str, str] = field(default_factory=dict)
    """Map a module to its classes, methods and functions that only faults need."""


FELIX = "calico/felix_faults.py"
LINUX, WINDOWS = "calico/felix_policy.py", "calico/felix_windows_policy.py"
DOOR = "api/interference.py"
TAPS = {
    "requests": Tap(
        {DOOR: "refusals: dict", "api/http/handler.py": r"path not in HEALTH:|_interference = "},
        {DOOR: "Refusal Interference.refuse Interference.refusing Interference.before_request"},
    ),
    "watches": Tap(
        {DOOR: "silences: dict", "api/http/handler.py": "catches_watch"},
        {DOOR: "Silence Interference.catches_watch"},
    ),
    "connections": Tap(
        {DOOR: "away_until: dict|on_going_away: "},
        {
            DOOR: "Interference.go_away Interference.going_away Interference.away",
            "api/server.py": "_Cut _Server",
        },
    ),
    "written objects": Tap(
        {
            DOOR: "admission: Seam",
            "api/operations.py": r"\.admission\b",
            "api/server.py": r"\.admission\b",
            "cluster/lab.py": r"\.admission\b",
        }
    ),
    "execs": Tap(
        {DOOR: r"self\.execs\b", "api/server.py": "FaultyAgent"},
        {"api/exec_faults.py": "Scope ExecFault Session ExecFaults"},
    ),
    "updates of Typha": Tap({"calico/typha.py": r"self\.updates\b"}),
    "policies that apply": Tap(
        {FELIX: "applying: Seam", LINUX: r"faults\.applying", WINDOWS: r"faults\.applying"}
    ),
    "policies by tier": Tap(
        {FELIX: "policies: Seam", LINUX: r"faults\.policies", WINDOWS: r"faults\.policies"}
    ),
    "members of sets": Tap(
        {FELIX: "set_members: Seam", LINUX: r"faults\.members", WINDOWS: r"faults\.members"},
        {FELIX: "Sets FelixFaults.members"},
    ),
    "endpoints that keep their program": Tap(
        {FELIX: "held: Seam", LINUX: r"\bheld\b", WINDOWS: r"\bheld\b"}
    ),
    "endpoints that lose their connections": Tap(
        {FELIX: "resets: Seam", LINUX: r"faults\.resets", WINDOWS: r"faults\.resets"}
    ),
    "ACL lists": Tap({FELIX: "acls: Seam", "calico/felix.py": r"faults\.acls"}),
    "routes of a node": Tap({FELIX: "routes: Seam", "calico/felix_routes.py": r"faults\.routes"}),
    "tunnel of a node": Tap({FELIX: "tunnels: Seam"}, {FELIX: "FelixFaults.tunnel"}),
    "tables of Services and the zone": Tap(
        {"cluster/lab.py": "ZoneGate|ServiceGate"},
        {"faults/gates.py": "Gate ZoneGate ServiceGate _programmed _lost"},
    ),
    "answers of Windows hosts": Tap(
        {
            "cluster/windows_hosts.py": r"self\.answers\b",
            "cluster/lab.py": r"answers\.answers\b",
            "faults/lab_parts.py": "host_answers",
        }
    ),
    "refusals of the CNI plugins": Tap({"calico/cni.py": r"self\.refusals\b"}),
    "packets": Tap(
        {
            "dataplane/injection.py": "_TABLE = |_CHAINS = |_LINE = |_NAME = ",
            "dataplane/fabric.py": r"injections\b",
            "dataplane/node.py": r"injections\b",
        },
        {
            "dataplane/injection.py": "Injections _of_chain",
            "dataplane/service.py": "DataplaneService.set_fault_rules "
            "DataplaneService.clear_fault_rules DataplaneService.fault_rules "
            "DataplaneService._injections",
        },
    ),
    "time of packets": Tap(
        {"dataplane/service.py": "_wires: dict"},
        {
            "kernel/slow_wire.py": "SlowWire finish_frames _tap _send",
            "dataplane/service.py": "DataplaneService.set_latency DataplaneService.latency",
        },
    ),
}


@cache
def tree(module: str) -> ast.Module:
    return ast.parse((LIB / module).read_text())


def named(module: str) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the functions and classes of a module and the methods of its classes, with names."""
    for node in tree(module).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, node
            for method in node.body:
                if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield f"{node.name}.{method.name}", method
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node


def passing(module: ast.Module, pattern: str) -> list[ast.stmt]:
    """Return the statements that match, each with what is inside it."""
    found: list[ast.stmt] = []
    inside: set[ast.AST] = set()
    for node in ast.walk(module):
        is_statement = isinstance(node, ast.stmt) and not isinstance(
            node,
            ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Import | ast.ImportFrom,
        )
        if not is_statement or node in inside:
            continue
        head = ast.unparse(node).partition("\n")[0]
        if re.search(pattern, head):
            found.append(node)  # type: ignore[arg-type]
            inside |= {*ast.walk(node)}
    return found


def cost(tap: Tap) -> int:
    """Return the number of a tap's statements. Fail if it names what is not there."""
    count = 0
    for module, pattern in tap.passes.items():
        places = passing(tree(module), pattern)
        assert places, f"nothing in {module} matches {pattern}"
        count += sum(map(statements, places))
    for module, names in tap.whole.items():
        there = dict(named(module))
        count += sum(statements(there[name]) for name in names.split())
    return count


@pytest.mark.parametrize("seam", TAPS)
def test_a_tap_costs_few_statements(seam: str) -> None:
    assert 2 <= cost(TAPS[seam]) <= MOST


@pytest.mark.parametrize("module", [DOOR, "api/exec_faults.py", FELIX, "faults/gates.py"])
def test_modules_that_hold_taps_stay_as_small_as_one(module: str) -> None:
    assert statements(tree(module)) <= MOST


def test_every_seam_of_the_lab_is_counted() -> None:
    counted = " ".join(
        pattern.replace("\\b", "") for tap in TAPS.values() for pattern in tap.passes.values()
    )
    declared = {
        (module, name)
        for path in LIB.rglob("*.py")
        for module in [str(path.relative_to(LIB))]
        for node in ast.walk(tree(module))
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).startswith("Seam[")
        for name in [ast.unparse(node.target).removeprefix("self.")]
    }
    assert len(declared) >= 14
    of_gates = ("faults/gates.py", "seam")
    assert not [one for one in declared - {of_gates} if one[1] not in counted]


def test_everything_at_the_api_server_s_door_is_part_of_a_tap() -> None:
    counted = {name for tap in TAPS.values() for name in tap.whole.get(DOOR, "").split()}
    shared = {"Interference", "Interference.__init__", "Refusal.concerns"}
    assert {name for name, _ in named(DOOR)} - shared == counted


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("y = seam(1)", 1),
        ("if y := seam(1):\n    a = 1\n    b = 2\nc = 3", 3),
        ("for y in seam(1):\n    a = seam(2)", 2),
        ("def f():\n    return seam(1)", 1),
        ("from seam import seam", 0),
    ],
)
def test_a_statement_at_a_seam_counts_with_what_depends_on_it(source: str, count: int) -> None:
    assert sum(map(statements, passing(ast.parse(source), "seam"))) == count
