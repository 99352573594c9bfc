# SPDX-License-Identifier: Apache-2.0
"""Print the size of the code, room by room: ``python -m tools.size [FOLDER]``.

A room is a package of lib/ (a nested package is a room of its own), or a module that lies directly in one of the two
libraries. Statements are counted without docstrings and imports; ``a, b = 1, 2`` counts once per name. Complexity is
radon's cyclomatic complexity per function or method.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from radon.complexity import cc_visit
from radon.visitors import Function

LIBRARIES = ("conformance", "hybridlab")
COMPLEX = 15
"""The highest cyclomatic complexity that a function in lib/ may have."""


@dataclass(frozen=True)
class MeasuredFunction:
    """A function or method of lib/: where it is, and its cyclomatic complexity."""

    path: str
    """The path relative to lib/."""
    name: str
    """The name with that of its class: ``Kube.request``."""
    complexity: int

    @property
    def address(self) -> str:
        """Return path and name in the form of the lists of exceptions:
        ``conformance/cli.py:main``."""
        return f"{self.path}:{self.name}"


@dataclass
class Room:
    """The measurements of one room."""

    statements: int = 0
    functions: list[MeasuredFunction] = field(default_factory=list)
    imports: set[str] = field(default_factory=set)
    """Names of the other rooms of the same library that this room imports."""


def statements(tree: ast.AST) -> int:
    """Count the statements of ``tree``: no docstrings, no imports, a packed assignment once per name."""
    return sum(_weight(node) for node in ast.walk(tree) if isinstance(node, ast.stmt))


def _weight(node: ast.stmt) -> int:
    if isinstance(node, ast.Import | ast.ImportFrom):
        return 0
    if (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ):
        return 0
    return len(_packed(node)) or 1


def _packed(node: ast.stmt) -> list[ast.expr]:
    """Return the targets of ``a, b = 1, 2``; for any other statement, return none."""
    if (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Tuple)
        and isinstance(node.value, ast.Tuple)
    ):
        return node.targets[0].elts
    return []


def packed_assignments(tree: ast.AST) -> int:
    """Count the assignments that give several values to several names."""
    return sum(bool(_packed(node)) for node in ast.walk(tree) if isinstance(node, ast.stmt))


def functions(source: str, path: str) -> list[MeasuredFunction]:
    """Measure each function and method of a module; nested functions count into the function around them."""
    return [
        MeasuredFunction(path, block.fullname, block.complexity)
        for block in cc_visit(source)
        if isinstance(block, Function)
    ]


def rooms(lib: Path) -> dict[str, Room]:
    """Measure every room below ``lib``, by its dotted name."""
    measured: dict[str, Room] = {}
    for path in sorted(file for library in LIBRARIES for file in (lib / library).rglob("*.py")):
        module = _module(path, lib)
        source = path.read_text()
        tree = ast.parse(source)
        room = measured.setdefault(room_of(module, lib), Room())
        room.statements += statements(tree)
        room.functions += functions(source, str(path.relative_to(lib)))
        room.imports |= {
            room_of(imported, lib) for imported in _imports(tree, module.partition(".")[0])
        }
    for name, room in measured.items():
        room.imports.discard(name)
    return measured


def _module(path: Path, lib: Path) -> str:
    return ".".join(path.relative_to(lib).with_suffix("").parts).removesuffix(".__init__")


def room_of(module: str, lib: Path) -> str:
    """Return the room of a dotted module: its package, or the module itself if it is directly in a
    library."""
    parts = module.split(".")
    while not lib.joinpath(*parts).is_dir() and len(parts) > 2:
        parts.pop()
    return ".".join(parts)


def _imports(tree: ast.AST, library: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.ImportFrom)
            and node.module
            and node.module.startswith(library + ".")
        ):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module == library:
            yield from (f"{library}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith(library + "."))


def table(measured: dict[str, Room]) -> str:
    """Return one line per room, then one per library and one for all of lib/."""
    heading = f"{'room':34} statements functions over {COMPLEX} highest imports"
    lines = [
        heading,
        *(_line(name, [room], len(room.imports)) for name, room in sorted(measured.items())),
    ]
    for library in LIBRARIES:
        lines.append(
            _line(
                library, [room for name, room in measured.items() if name.split(".")[0] == library]
            )
        )
    lines.append(_line("lib/", list(measured.values())))
    return "\n".join(lines)


def _line(name: str, several: list[Room], imports: int | None = None) -> str:
    counted = [function.complexity for room in several for function in room.functions]
    over = sum(complexity > COMPLEX for complexity in counted)
    highest = max(counted, default=0)
    total = sum(room.statements for room in several)
    return f"{name:34} {total:10} {len(counted):9} {over:7} {highest:7} {'' if imports is None else imports:7}".rstrip()


def main(arguments: list[str]) -> None:
    """Print the table of ``FOLDER``/lib, by default of the checkout that this file is in."""
    root = Path(arguments[0]) if arguments else Path(__file__).parents[1]
    print(table(rooms(root / "lib")))


if __name__ == "__main__":
    main(sys.argv[1:])
