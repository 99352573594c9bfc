# SPDX-License-Identifier: Apache-2.0
"""The syntax tree that the parser makes and the interpreter runs.

Each node knows its place in the script, for error messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import dataclass_transform


class NotEmulated(Exception):
    """A construct, cmdlet or member that this PowerShell lacks. The message names it."""


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Node:
    """A syntax node with its start and end offset in the script.

    Each kind of node is a frozen dataclass.
    """

    start: int
    end: int

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class Literal(Node):
    """A number, a quoted text or a bare word."""

    value: int | str


class Variable(Node):
    """``$name``, or ``$env:NAME`` if ``environment`` is true."""

    name: str
    environment: bool = False


class TypeName(Node):
    """``[Net.Dns]``, without ``System.``."""

    name: str


class Member(Node):
    """``a.B`` or ``[T]::B``; a method call if there are ``arguments``."""

    target: Node
    name: str
    static: bool
    arguments: tuple[Node, ...] | None


class Index(Node):
    """``a[b]``."""

    target: Node
    index: Node


class Binary(Node):
    """``a -eq b``. Only operators such as ``-ceq`` are ``sensitive`` to case."""

    operator: str
    left: Node
    right: Node
    sensitive: bool = False


class Cast(Node):
    """``[int]$x``."""

    type_name: str
    operand: Node


class Array(Node):
    """``a, b``."""

    items: tuple[Node, ...]


class Group(Node):
    """``(...)``."""

    inner: Node


class Hash(Node):
    """``@{}``, without entries."""


class ScriptBlock(Node):
    """``{...}`` as a value."""

    body: Block


class Parameter(Node):
    """``-Name`` of a command."""

    name: str


class Command(Node):
    """A cmdlet or program with its arguments. A leading ``&`` is ignored."""

    name: Node
    arguments: tuple[Node, ...]


class Pipeline(Node):
    """``a | b``, or a single command. The first stage may be an expression."""

    elements: tuple[Node, ...]


class Assignment(Node):
    """``a = b``, ``a += b``."""

    target: Node
    operator: str
    value: Node


class Block(Node):
    """A list of statements."""

    statements: tuple[Node, ...]


class If(Node):
    """``if`` and ``else``."""

    condition: Node
    body: Block
    otherwise: Block | None


class While(Node):
    """``while``."""

    condition: Node
    body: Block


class ForEach(Node):
    """``foreach ($x in ...)``."""

    variable: Variable
    items: Node
    body: Block


class Try(Node):
    """``try`` and ``catch``."""

    body: Block
    catch: Block


class End(Node):
    """``exit``."""

    status: Node | None
