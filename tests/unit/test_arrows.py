# SPDX-License-Identifier: Apache-2.0
"""Imports obey the architecture's tables of rooms and libraries; planted violations show that
this test notices them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

ALL_LAB = {
    "profiles.load", "networks", "faults", "controllers", "calico", "networks.ipam", "networks.contract", "policy",
    "labd", "windows", "powershell", "probe_programs", "dataplane", "runtime", "api", "kernel", "profiles", "taps",
    "assumed",
}  # fmt: skip
API_SEAM = {"api.contract", "api.informer"}

LAB_ARROWS: dict[str, set[str]] = {
    "cli": ALL_LAB | {"cluster"},
    "cluster": ALL_LAB,
    "labd": {"kernel", "dataplane", "runtime", "windows", "powershell"},
    "profiles.load": {"networks", "profiles"},
    "networks": {
        "faults", "networks.contract", "calico", "policy", "windows", "dataplane", "profiles",
        "assumed",
    },
    "faults": {"dataplane", "runtime", "calico", "policy", "windows", "api", "taps"},
    "controllers": {"dataplane", "runtime", "profiles"} | API_SEAM,
    "calico": {
        "networks.ipam", "networks.contract", "policy", "dataplane", "runtime", "windows", "profiles", "taps",
    } | API_SEAM,
    "networks.ipam": {"networks.contract", "windows", "profiles"},
    "networks.contract": {"windows", "dataplane.model", "profiles", "api.contract"},
    "policy": {"dataplane.model", "profiles.model"},
    "windows": {"dataplane", "runtime", "profiles"} | API_SEAM,
    "powershell": {"probe_programs", "runtime", "assumed"},
    "probe_programs": {"runtime", "assumed"},
    "dataplane": {"kernel", "assumed"},
    "runtime": {"kernel", "assumed"},
    "api": {"taps"},
    "kernel": set(),
    "profiles": {"assumed"},
    "taps": set(),
    "assumed": set(),
}  # fmt: skip
"""Package of hybridlab to what else of hybridlab it may import (``a.b``: that module only)."""

BASE = {"timing", "settings", "errors", "model", "product", "printing", "scrubbing"}
JUDGE_ARROWS: dict[str, set[str]] = {
    "outside": {"plugin.options"},
    "command": {"cli", "plugin.options", "catalog"},
    "plugin": {
        "plugin.fixtures", "plugin.rehearsal", "plugin.judge", "plugin.marked", "plugin.words",
        "plugin.state", "plugin.options", "plugin.qualification", "plugin.rerun", "watch", "run",
        "schedule", "stories", "enforcement", "foreign", "undo", "journal", "qualify", "report",
        "verdicts",
        "pods", "facts", "kube", "marks", "catalog",
    } | BASE,
    "plugin.fixtures": {
        "plugin.rehearsal", "plugin.judge", "plugin.state", "fixtures", "watch", "run", "schedule",
        "stories", "worlds", "enforcement", "evidence", "foreign", "undo", "journal", "disrupt",
        "expect",
        "report", "verdicts", "probe", "pods", "facts", "kube",
    } | BASE,
    "plugin.rehearsal": {"plugin.state", "timing", "errors", "model", "printing"},
    "plugin.judge": {
        "plugin.marked", "plugin.words", "plugin.rerun", "plugin.state", "plugin.options",
        "schedule", "evidence", "report", "verdicts", "catalog",
    } | BASE,
    "plugin.words": {"marks", "catalog"},
    "plugin.marked": {"stories", "schedule", "enforcement", "verdicts", "catalog"} | BASE,
    "plugin.state": {"plugin.options", "run", "report"} | BASE,
    "plugin.qualification": {"qualify", "report", "verdicts", "catalog", "model", "errors"},
    "plugin.rerun": {"qualify", "report", "verdicts", "catalog", "model", "errors"},
    "plugin.options": {"run", "catalog"} | BASE,
    "fixtures": {"stories", "worlds", "enforcement", "disrupt", "expect", "facts", "pods", "model"},
    "watch": {
        "run", "enforcement", "foreign", "expect", "expect.engine", "probe", "pods", "kube",
    } | BASE,
    "cli": {
        "calibrate", "offline", "jobs", "qualify", "report", "pods", "kube", "catalog", "errors",
        "product", "printing",
    },
    "jobs": {"qualify", "report", "verdicts", "pods", "kube", "catalog"} | BASE,
    "calibrate": {"run", "evidence", "probe", "pods", "kube"} | BASE,
    "run": {"schedule", "foreign", "undo", "journal", "probe", "pods", "facts", "kube"} | BASE,
    "schedule": {"verdicts", "probe", "pods", "facts", "kube", "catalog"} | BASE,
    "stories": {"stories.model", "worlds", "enforcement", "pods", "kube", "policy"} | BASE,
    "stories.model": {"policy", "model", "errors"},
    "worlds": {
        "enforcement", "expect", "expect.explain", "expect.engine", "verdicts.meaning", "pods",
        "policy", "catalog",
    } | BASE,
    "enforcement": {"expect", "pods", "facts", "kube", "policy"} | BASE,
    "evidence": {
        "journal", "expect", "expect.explain", "expect.engine", "probe", "facts", "kube", "policy",
    } | BASE,
    "foreign": {"expect", "pods", "kube", "policy"} | BASE,
    "undo": {"disrupt", "journal", "expect", "probe", "pods", "facts", "kube"} | BASE,
    "disrupt": {
        "journal", "expect", "verdicts.meaning", "probe", "pods", "facts", "kube",
    } | BASE,
    "journal": {"facts", "kube"} | BASE,
    "offline": {"policy", "kube"} | BASE,
    "qualify": {"verdicts", "catalog", "model", "errors"},
    "report": {"verdicts", "catalog", "model", "settings", "printing", "scrubbing"},
    "verdicts": {"verdicts.meaning", "catalog", "model", "errors"},
    "expect.subjects": {
        "expect", "verdicts.meaning", "probe", "pods", "policy", "catalog",
    } | BASE,
    "expect": {
        "expect.explain", "expect.engine", "verdicts.meaning", "probe", "pods", "policy",
    } | BASE,
    "expect.explain": {"expect.engine", "probe", "pods"} | BASE,
    "expect.engine": {"probe", "pods"} | BASE,
    "probe": {"pods", "kube"} | BASE,
    "pods": {"verdicts.meaning", "kube"} | BASE,
    "verdicts.meaning": {"model", "errors"},
    "facts.networks": {"facts", "policy.selectors", "kube", "catalog"} | BASE,
    "facts": {"policy.selectors", "kube", "catalog"} | BASE,
    "kube": {"policy.selectors"} | BASE,
    "policy": {"model", "errors"},
    "marks": {"model", "errors", "catalog", "product"},
    "catalog": {"model", "errors"},
    "settings": {"model", "errors"},
    "timing": {"model", "errors"},
    "errors": {"model", "printing"},
    "printing": set(),
    "scrubbing": set(),
    "model": set(),
    "product": set(),
}  # fmt: skip
"""Room of conformance, from the top down, to what else of conformance it may import."""

DOORS: dict[str, set[str]] = {
    "argcomplete": {"conformance.command", "hybridlab.cli"},
    "kubernetes": {"conformance.kube"},
    "websocket": {"conformance.kube"},
    "re2": {"conformance.model"},
    "tenacity": {"conformance.timing"},
    "hypothesis": {"conformance.stories"},
    "allure": {"conformance.report"},
    "allure_commons": {"conformance.report"},
    "allure_pytest": {"conformance.report"},
    "pytest": {"conformance.plugin", "conformance.marks", "conformance.outside"},
    "_pytest": {"conformance.plugin"},
    "xdist": {"conformance.plugin"},
    "yaml": {
        "conformance.settings",
        "conformance.catalog",
        "conformance.kube",
        "hybridlab.api.http.yaml_bodies",
        "hybridlab.assumed",
        "conformance.qualify",
        "hybridlab.profiles",
        "hybridlab.runtime.images",
    },
    "aiohttp": {"hybridlab.api"},
    "trustme": {"hybridlab.cluster"},
    "dnslib": {
        "hybridlab.dataplane",
        "hybridlab.runtime",
        "hybridlab.powershell",
        "hybridlab.probe_programs",
    },
}
"""Third-party package to the packages that may import it."""


@cache
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """(line, dotted module) of every import in a file, wherever it stands; relative ones made absolute.

    Each file is parsed once: two tests ask about all of them, and that takes seconds.
    """
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[int, str]]:
    package = ".".join(path.relative_to(path.parents[_depth(path)]).with_suffix("").parts[:-1])
    for node in _statements(ast.parse(path.read_text(), filename=str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1])
                base = f"{parent}.{base}".rstrip(".")
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Every statement in a node, and what holds statements; expressions, which are most of a tree, hold none."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        held = getattr(node, block, ())
        for statement in (
            held if isinstance(held, list) else ()
        ):  # the body of a lambda is an expression
            yield statement
            yield from _statements(statement)


def _depth(path: Path) -> int:
    """How many parents up the source root (``lib``) is."""
    return [parent.name for parent in path.parents].index("lib")


def _within(module: str, prefixes: set[str]) -> bool:
    return any(module == prefix or module.startswith(prefix + ".") for prefix in prefixes)


def room(module: str, arrows: dict[str, set[str]]) -> str:
    """The row that a module (without its distribution) belongs to: the longest that it lies within."""
    rows = [row for row in arrows if _within(module, {row})]
    return max(rows, key=len, default=module.split(".", maxsplit=1)[0])


def violations(lib: Path) -> list[str]:
    """``file:line what may not be`` for every import under ``lib`` that breaks an arrow or a door."""
    found = []
    for path in sorted(lib.rglob("*.py")):
        module = ".".join(path.relative_to(lib).with_suffix("").parts)
        distribution, _, inner = module.partition(".")
        arrows = LAB_ARROWS if distribution == "hybridlab" else JUDGE_ARROWS
        own = room(inner.removesuffix(".__init__"), arrows)
        for line, target in imports(path):
            top, _, rest = target.partition(".")
            problem = ""
            if top in {"hybridlab", "conformance"}:
                if top != distribution:
                    problem = f"{distribution} and {top} share nothing"
                elif own not in {"__init__", "__main__"} and rest and room(rest, arrows) != own:
                    if own not in arrows:
                        problem = f"package {own} has no row in the architecture"
                    elif not _within(rest, arrows[own]):
                        problem = f"{own} may not import {room(rest, arrows)}"
            elif top in DOORS and not _within(module, DOORS[top]):
                problem = f"only {', '.join(sorted(DOORS[top]))} may import {top}"
            if problem:
                found.append(f"{path.relative_to(lib)}:{line} imports {target}: {problem}")
    return found


def test_every_import_follows_the_architecture() -> None:
    found = violations(ROOT / "lib")
    assert not found, "imports that no arrow or door allows:\n" + "\n".join(found)


def circle(lib: Path) -> list[str]:
    """Files that import each other in a circle, wherever in them the imports stand; empty: none do."""
    files = {
        ".".join(path.relative_to(lib).with_suffix("").parts): path for path in lib.rglob("*.py")
    }
    named = {module.removesuffix(".__init__"): path for module, path in files.items()}
    graph = {
        module: {_imported(name, named) for _, name in imports(path)} & set(named)
        for module, path in named.items()
    }
    try:
        TopologicalSorter({module: found - {module} for module, found in graph.items()}).prepare()
    except CycleError as found:
        return list(found.args[1])
    return []


def _imported(name: str, named: dict[str, Path]) -> str:
    """The module that a dotted name is, or is something of."""
    return name if name in named else name.rpartition(".")[0]


def test_no_files_import_each_other_in_a_circle() -> None:
    found = circle(ROOT / "lib")
    assert not found, f"files that import each other in a circle: {' -> '.join(found)}"


def test_every_package_has_a_row() -> None:
    for distribution, arrows in (("hybridlab", LAB_ARROWS), ("conformance", JUDGE_ARROWS)):
        packages = {
            path.parent.name for path in (ROOT / "lib" / distribution).glob("*/__init__.py")
        }
        assert packages <= set(arrows), f"{distribution}: no row for {packages - set(arrows)}"


@pytest.mark.parametrize("arrows", [LAB_ARROWS, JUDGE_ARROWS], ids=["hybridlab", "conformance"])
def test_no_arrow_points_upwards(arrows: dict[str, set[str]]) -> None:
    """Rows stand from the top down, so that what a row may import stands below it."""
    rows = list(arrows)
    upward = [
        f"{row} -> {target}"
        for number, row in enumerate(rows)
        for target in arrows[row]
        if rows.index(room(target, arrows)) <= number
    ]
    assert not upward, f"arrows that point upwards, to a row above or to the same: {upward}"


MOST = 8
"""Rooms beside base that a room of the judge may import; a nested package is a room of its own."""
PUT_TOGETHER = ("plugin", "fixtures")
"""Pytest's rooms, and the names for suites: these put all others together."""


def imported_rooms(lib: Path) -> dict[str, set[str]]:
    """Map each room of the judge to the rooms beside base that its files import."""
    found: dict[str, set[str]] = {}
    for path in (lib / "conformance").rglob("*.py"):
        own = room(_inner(".".join(path.relative_to(lib).with_suffix("").parts)), JUDGE_ARROWS)
        targets = {_inner(name) for _, name in imports(path) if name.startswith("conformance.")}
        rooms = {room(target, JUDGE_ARROWS) for target in targets} - {own, *BASE}
        found.setdefault(own, set()).update(rooms)
    return found


def _inner(module: str) -> str:
    return module.partition(".")[2].removesuffix(".__init__")


def test_a_room_of_the_judge_imports_few_others() -> None:
    many = {
        row: sorted(rooms)
        for row, rooms in imported_rooms(ROOT / "lib").items()
        if row.partition(".")[0] not in PUT_TOGETHER and len(rooms) > MOST
    }
    assert not many, f"more than {MOST} rooms; split these by subject: {many}"


def test_a_nested_package_is_a_room_that_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "lib" / "conformance" / "disrupt" / "x.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "from conformance.errors import Unmet\nfrom conformance.disrupt import drain\n"
        "from conformance.expect.case import Case\nfrom conformance.expect.engine import ask\n"
    )
    assert imported_rooms(tmp_path / "lib") == {"disrupt": {"expect", "expect.engine"}}


def test_suites_import_only_fixtures_marks_and_catalog() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for path in sorted((ROOT / "suites").rglob("*.py"))
        for line, target in suite_imports(path)
        if target.split(".")[0]
        in {"conformance", "hybridlab", "kubernetes", "allure", "tenacity", "yaml"}
        and not _within(
            target, {"conformance.fixtures", "conformance.marks", "conformance.catalog"}
        )
    ]
    assert found == []


def suite_imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in _statements(ast.parse(path.read_text(), filename=str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


PLANTED = [
    pytest.param(
        "hybridlab/calico/x.py",
        "from conformance.model import claim",
        "share nothing",
        id="lab to judge",
    ),
    pytest.param(
        "conformance/expect/x.py", "import hybridlab.calico", "share nothing", id="judge to lab"
    ),
    pytest.param(
        "hybridlab/kernel/x.py",
        "from hybridlab.dataplane import model",
        "kernel may not",
        id="upwards",
    ),
    pytest.param(
        "hybridlab/api/x.py",
        "from hybridlab import controllers",
        "api may not",
        id="from package import",
    ),
    pytest.param(
        "hybridlab/calico/x.py",
        "from hybridlab.api.store import Store",
        "calico may not",
        id="past seam",
    ),
    pytest.param(
        "hybridlab/dataplane/x.py", "from ..calico import ipam", "dataplane may not", id="relative"
    ),
    pytest.param(
        "conformance/kube/x.py",
        "def f():\n    from conformance.probe import y",
        "kube may not",
        id="hidden",
    ),
    pytest.param(
        "conformance/probe/x.py", "import kubernetes", "only conformance.kube", id="door kubernetes"
    ),
    pytest.param(
        "conformance/expect/x.py", "import tenacity", "only conformance.timing", id="door tenacity"
    ),
    pytest.param(
        "conformance/plugin/x.py", "import allure", "only conformance.report", id="door allure"
    ),
    pytest.param(
        "hybridlab/calico/x.py", "import aiohttp.web", "only hybridlab.api", id="door aiohttp"
    ),
    pytest.param(
        "hybridlab/api/x.py",
        "from hybridlab.apiary import y",
        "api may not",
        id="name that begins alike",
    ),
    pytest.param(
        "conformance/run/x.py",
        "from conformance.runtime import y",
        "run may not",
        id="judge's alike",
    ),
    pytest.param(
        "conformance/journal/x.py",
        "from conformance.undo import healers",
        "journal may not",
        id="journal",
    ),
    pytest.param(
        "conformance/disrupt/x.py",
        "from conformance.undo.cleanup import y",
        "disrupt may not",
        id="undo",
    ),
    pytest.param(
        "conformance/run/x.py",
        "import pytest",
        "conformance.plugin may import pytest",
        id="door pytest",
    ),
    pytest.param(
        "conformance/plugin/fixtures/x.py",
        "from conformance.plugin import lists",
        "may not",
        id="fixtures",
    ),
    pytest.param(
        "hybridlab/helpers/x.py", "from hybridlab.api import contract", "no row", id="new package"
    ),
]


@pytest.mark.parametrize(("where", "code", "expected"), PLANTED)
def test_a_planted_violation_is_found(tmp_path: Path, where: str, code: str, expected: str) -> None:
    path = tmp_path / "lib" / where
    path.parent.mkdir(parents=True)
    path.write_text(code + "\n")
    found = violations(tmp_path / "lib")
    assert len(found) == 1, found
    assert expected in found[0]


@pytest.mark.parametrize("other", ["two", "__init__"])
def test_a_planted_circle_is_found(tmp_path: Path, other: str) -> None:
    package = tmp_path / "lib" / "hybridlab" / "calico"
    package.mkdir(parents=True)
    (package / "one.py").write_text(
        "from hybridlab.calico import two\nfrom hybridlab.calico import x\n"
    )
    (package / "two.py").write_text("import os\n")
    (package / f"{other}.py").write_text("def f():\n    from hybridlab.calico.one import x\n")
    assert "hybridlab.calico.one" in circle(tmp_path / "lib")


def test_allowed_imports_are_not_reported(tmp_path: Path) -> None:
    path = tmp_path / "lib" / "hybridlab" / "calico" / "x.py"
    path.parent.mkdir(parents=True)
    path.write_text(
        "import os\nfrom hybridlab.api.contract import Client\nfrom hybridlab.calico import ipam\n"
    )
    assert violations(tmp_path / "lib") == []
