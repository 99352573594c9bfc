# SPDX-License-Identifier: Apache-2.0
"""Only a plane's own folder knows the plane: no other module names it, its device, its port or its
identifiers.

The fields of API objects (``api``) and the kinds of links (``kernel``) have their names from
outside.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hybridlab.networks.registry import PLANES

ROOT = Path(__file__).parents[2]
FREE = {"networks", "api", "kernel"}
"""Rooms of the lab that may name planes and what belongs to them."""
NAMES = re.compile(rf"{'|'.join([*PLANES, 'vxlan', 'vni'])}", re.IGNORECASE)
"""Of planes, devices and identifiers; ``vxlan.calico``, ``VXLAN_VNI`` and ``felix_vni`` among them."""
BUILT_ON = {"flannel": {"routed", "vxlan"}}
"""Planes that are made of others: flannel's overlay has the routed plane's plugin and VXLAN's
tunnel, which it would have to repeat."""
BY_CHANCE = re.compile(r"windows_to_windows_with_new_vni")
"""A field of profiles that says how real Windows nodes behave."""
PORTS = {4789}
WORTH_PARSING = re.compile(rf"{NAMES.pattern}|4789|\.kind\b|networks\.", re.IGNORECASE)


def _docstrings(tree: ast.Module) -> set[int]:
    """The statements that are text alone: docstrings of modules, classes, functions and fields."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def _words(node: ast.AST) -> Iterator[str | int]:
    """What a node of the syntax tree names."""
    for field in ("id", "attr", "arg", "name", "module", "asname"):
        word = getattr(node, field, None)
        if isinstance(word, str):
            yield word
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, str | int)
        and not isinstance(node.value, bool)
    ):
        yield node.value


def _plane_of(path: Path, networks: Path) -> str:
    """The folder of a plane that a file is in; empty: it is in none."""
    folder = path.relative_to(networks).parts[0] if path.is_relative_to(networks) else ""
    return folder if _is_plane(networks / folder) else ""


def _is_plane(folder: Path) -> bool:
    return folder.name != "contract" and (folder / "plane.py").exists()


def leaks(lib: Path) -> list[str]:
    """``file:line word`` for everything that names a plane, or compares its kind, where it may not."""
    lab, found = lib / "hybridlab", []
    for path in sorted(lab.rglob("*.py")):
        room, text = path.relative_to(lab).parts[0], path.read_text(encoding="utf-8")
        if not WORTH_PARSING.search(text):
            continue
        tree = ast.parse(text)
        texts = _docstrings(tree)
        where = path.relative_to(lib)
        for node in ast.walk(tree):
            line = getattr(node, "lineno", 0)
            if room not in FREE:
                for word in () if id(node) in texts else _words(node):
                    named = (
                        NAMES.search(BY_CHANCE.sub("", word))
                        if isinstance(word, str)
                        else word in PORTS
                    )
                    if named or (
                        isinstance(word, str) and any(str(port) in word for port in PORTS)
                    ):
                        found.append(f"{where}:{line} names {word!r}")
            if room != "networks" and _compares_a_kind(node):
                found.append(f"{where}:{line} compares a plane's kind")
            found += [
                f"{where}:{line} imports {name}: {_plane_of(path, lab / 'networks') or 'only the registry'} may not"
                for name in _planes_imported(node, lab / "networks")
                if name != (own := _plane_of(path, lab / "networks"))
                and name not in BUILT_ON.get(own, ())
                and path != lab / "networks" / "registry.py"
            ]
    return found


def _compares_a_kind(node: ast.AST) -> bool:
    """Whether a node asks which kind a plane is, by comparison, ``match`` or the class of its settings."""
    if isinstance(node, ast.Compare):
        asked = [node.left, *node.comparators]
    elif isinstance(node, ast.Match):
        asked = [node.subject]
    else:
        return False
    return any(
        isinstance(one, ast.Attribute) and one.attr == "kind" and "plane" in ast.unparse(one.value)
        for one in asked
    )


def _planes_imported(node: ast.AST, networks: Path) -> Iterator[str]:
    """The planes from whose folders a statement imports."""
    if isinstance(node, ast.ImportFrom):
        names = [f"{node.module}.{alias.name}" for alias in node.names]
    else:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    for name in names:
        found = re.match(r"hybridlab\.networks\.(\w+)", name)
        if found and _is_plane(networks / found[1]):
            yield found[1]


def test_nothing_outside_networks_knows_a_plane() -> None:
    assert leaks(ROOT / "lib") == []


def test_every_plane_has_a_folder_and_a_line_of_the_registry() -> None:
    folders = {
        path.name for path in (ROOT / "lib" / "hybridlab" / "networks").iterdir() if _is_plane(path)
    }
    assert folders == set(PLANES)
    assert {kind: plane.kind for kind, plane in PLANES.items()} == {kind: kind for kind in PLANES}
    assert {plane.settings_type(kind=kind).kind for kind, plane in PLANES.items()} == set(PLANES)


PLANTED = [
    pytest.param("dataplane/x.py", 'DEVICE = "vxlan.calico"', "names 'vxlan.calico'", id="device"),
    pytest.param(
        "faults/x.py",
        'RULE = "udp dport 4789 drop"',
        "names 'udp dport 4789 drop'",
        id="port in a rule",
    ),
    pytest.param("calico/x.py", "PORT = 4789", "names 4789", id="port"),
    pytest.param(
        "calico/x.py",
        "def f(profile):\n    return profile.network.plane.vni",
        "names 'vni'",
        id="field",
    ),
    pytest.param("windows/x.py", "def ensure(vni):\n    return None", "names 'vni'", id="argument"),
    pytest.param(
        "cluster/x.py",
        "def f(plane):\n    return plane.kind == 'x'",
        "compares a plane's kind",
        id="kind",
    ),
    pytest.param(
        "api/x.py",
        "def f(p):\n    return p.network.plane.kind in {'x'}",
        "compares a plane's kind",
        id="kind in a set",
    ),
    pytest.param(
        "calico/x.py",
        "def f(plane):\n    match plane.kind:\n        case 'x': pass",
        "compares",
        id="match",
    ),
    pytest.param(
        "calico/x.py",
        "from hybridlab.networks.one.plane import One",
        "imports one",
        id="import of a plane",
    ),
    pytest.param(
        "networks/two/x.py",
        "from hybridlab.networks.one.plane import One",
        "imports one: two may",
        id="one of another",
    ),
]


@pytest.mark.parametrize(("where", "code", "expected"), PLANTED)
def test_a_planted_violation_is_found(tmp_path: Path, where: str, code: str, expected: str) -> None:
    lab = tmp_path / "lib" / "hybridlab"
    for plane in ("one", "two"):
        (lab / "networks" / plane).mkdir(parents=True)
        (lab / "networks" / plane / "plane.py").write_text("")
    path = lab / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code + "\n")
    found = leaks(tmp_path / "lib")
    assert len(found) == 1, found
    assert expected in found[0]


def test_words_about_planes_are_free_where_they_explain(tmp_path: Path) -> None:
    path = tmp_path / "lib" / "hybridlab" / "calico" / "x.py"
    path.parent.mkdir(parents=True)
    path.write_text('"""Unlike VXLAN on UDP 4789."""\n# vxlan.calico\nX = 1\n"""As a VNI."""\n')
    assert leaks(tmp_path / "lib") == []
