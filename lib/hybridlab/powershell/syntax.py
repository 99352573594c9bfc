"""The tree that the parser makes and the interpreter runs.  Every node knows its place, for error messages."""

from __future__ import annotations

from dataclasses import dataclass, field


class NotEmulated(Exception):
    """A construct, cmdlet or member that this PowerShell does not have; the message names it."""


class SyntaxFault(Exception):
    """The script is not valid PowerShell; ``at`` is the offset."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True)
class Node:
    """Start and end offset in the script."""

    start: int
    end: int


@dataclass(frozen=True)
class Literal(Node):
    """A number, a single-quoted string or a bare word."""

    value: object
    text: str = ""
    """How a number was written, where it is an argument of a command."""


@dataclass(frozen=True)
class Expandable(Node):
    """A double-quoted string: texts and expressions in turn."""

    parts: tuple[str | Node, ...]


@dataclass(frozen=True)
class Variable(Node):
    """``$name``, ``$env:NAME``; ``scope`` is what stands before the colon."""

    name: str
    scope: str = ""


@dataclass(frozen=True)
class TypeName(Node):
    """``[Net.Dns]``, without ``System.``."""

    name: str


@dataclass(frozen=True)
class Member(Node):
    """``a.B`` and ``[T]::B``; with ``arguments`` a method call."""

    target: Node
    name: Node
    static: bool
    arguments: tuple[Node, ...] | None


@dataclass(frozen=True)
class Index(Node):
    """``a[b]``."""

    target: Node
    index: Node


@dataclass(frozen=True)
class Unary(Node):
    """``-a``, ``!a``, ``-not a``, ``,a``."""

    operator: str
    operand: Node


@dataclass(frozen=True)
class Binary(Node):
    """``a -eq b``; ``sensitive`` to case when it is written ``-ceq``."""

    operator: str
    left: Node
    right: Node
    sensitive: bool = False


@dataclass(frozen=True)
class Cast(Node):
    """``[int]$x``."""

    type_name: str
    operand: Node


@dataclass(frozen=True)
class Array(Node):
    """``a, b``."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class SubExpression(Node):
    """``(...)``, ``$(...)``, ``@(...)``; ``kind`` is the opening character."""

    kind: str
    body: Block


@dataclass(frozen=True)
class Hash(Node):
    """``@{...}``."""

    entries: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True)
class ScriptBlock(Node):
    """``{...}`` as a value; ``text`` is what stands between the braces."""

    body: Block
    text: str


@dataclass(frozen=True)
class Parameter(Node):
    """``-Name`` or ``-Name:value`` of a command."""

    name: str
    value: Node | None


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Element(Node):
    """One element of a pipeline: a command or, in the first place, an expression."""

    node: Node
    redirections: tuple[Redirection, ...] = ()


@dataclass(frozen=True)
class Pipeline(Node):
    """``a | b``; also a single command."""

    elements: tuple[Element, ...]


@dataclass(frozen=True)
class Assignment(Node):
    """``a = b``, ``a += b``."""

    target: Node
    operator: str
    value: Node


@dataclass(frozen=True)
class Block(Node):
    """Statements in order."""

    statements: tuple[Node, ...]


@dataclass(frozen=True)
class If(Node):
    """``if``/``elseif`` branches and ``else``."""

    branches: tuple[tuple[Node, Block], ...]
    otherwise: Block | None


@dataclass(frozen=True)
class While(Node):
    """``while``."""

    condition: Node
    body: Block


@dataclass(frozen=True)
class ForEach(Node):
    """``foreach ($x in ...)``."""

    variable: Variable
    items: Node
    body: Block


@dataclass(frozen=True)
class Try(Node):
    """``try``; a typed catch is not emulated."""

    body: Block
    catch: Block | None
    final: Block | None


@dataclass(frozen=True)
class Jump(Node):
    """``break``, ``continue``, ``return``, ``exit``, ``throw``."""

    kind: str
    value: Node | None = field(default=None)
