"""The tree that the parser makes and the interpreter runs.  Every node knows its place, for error messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import dataclass_transform


class NotEmulated(Exception):
    """A construct, cmdlet or member that this PowerShell does not have; the message names it."""


class SyntaxFault(Exception):
    """The script is not valid PowerShell; ``at`` is the offset."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


@dataclass_transform(frozen_default=True)
@dataclass(frozen=True)
class Node:
    """Start and end offset in the script; each kind of node is a frozen dataclass."""

    start: int
    end: int

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class Literal(Node):
    """A number, a single-quoted string or a bare word."""

    value: object
    text: str = ""
    """How a number was written, where it is an argument of a command."""


class Expandable(Node):
    """A double-quoted string: texts and expressions in turn."""

    parts: tuple[str | Node, ...]


class Variable(Node):
    """``$name``, ``$env:NAME``; ``scope`` is what stands before the colon."""

    name: str
    scope: str = ""


class TypeName(Node):
    """``[Net.Dns]``, without ``System.``."""

    name: str


class Member(Node):
    """``a.B`` and ``[T]::B``; with ``arguments`` a method call."""

    target: Node
    name: Node
    static: bool
    arguments: tuple[Node, ...] | None


class Index(Node):
    """``a[b]``."""

    target: Node
    index: Node


class Unary(Node):
    """``-a``, ``!a``, ``-not a``, ``,a``."""

    operator: str
    operand: Node


class Binary(Node):
    """``a -eq b``; ``sensitive`` to case when it is written ``-ceq``."""

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


class SubExpression(Node):
    """``(...)``, ``$(...)``, ``@(...)``; ``kind`` is the opening character."""

    kind: str
    body: Block


class Hash(Node):
    """``@{...}``."""

    entries: tuple[tuple[Node, Node], ...]


class ScriptBlock(Node):
    """``{...}`` as a value; ``text`` is what stands between the braces."""

    body: Block
    text: str


class Parameter(Node):
    """``-Name`` or ``-Name:value`` of a command."""

    name: str
    value: Node | None


class Command(Node):
    """A cmdlet, script block or program with its arguments."""

    name: Node
    arguments: tuple[Node, ...]
    operator: str = ""
    """``&`` or ``.``."""


@dataclass(frozen=True)
class Redirection:
    """``2>$null`` and ``2>&1``; stream ``*`` is all of them."""

    stream: str
    merge: bool


class Element(Node):
    """One element of a pipeline: a command or, in the first place, an expression."""

    node: Node
    redirections: tuple[Redirection, ...] = ()


class Pipeline(Node):
    """``a | b``; also a single command."""

    elements: tuple[Element, ...]


class Assignment(Node):
    """``a = b``, ``a += b``."""

    target: Node
    operator: str
    value: Node


class Block(Node):
    """Statements in order."""

    statements: tuple[Node, ...]


class If(Node):
    """``if``/``elseif`` branches and ``else``."""

    branches: tuple[tuple[Node, Block], ...]
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
    """``try``; a typed catch is not emulated."""

    body: Block
    catch: Block | None
    final: Block | None


class Jump(Node):
    """``break``, ``continue``, ``return``, ``exit``, ``throw``."""

    kind: str
    value: Node | None = None
