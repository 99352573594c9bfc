"""Expressions to values.  Statements inside them, ``$(...)`` and pipelines, come from the interpreter."""

import inspect
from abc import ABC, abstractmethod

from hybridlab.powershell import operators
from hybridlab.powershell import syntax as s
from hybridlab.powershell.comparison import compare
from hybridlab.powershell.conversion import cast, to_number
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.formats import format_text
from hybridlab.powershell.members import (
    is_list_property,
    list_property,
    plain_method,
    plain_property,
    table_method,
    table_property,
)
from hybridlab.powershell.numbers import Long
from hybridlab.powershell.objects import (
    Char,
    HashTable,
    NetObject,
    enumerate_value,
    to_text,
    truth,
    unwrap,
)
from hybridlab.powershell.scope import PREFERENCES, Scope, check_assignable, check_preference
from hybridlab.powershell.shell import Library
from hybridlab.powershell.syntax import Node, NotEmulated
from hybridlab.runtime.applet import Process


class Evaluation(ABC):
    """Values of nodes, and what assignments do."""

    process: Process
    library: Library
    scope: Scope
    succeeded: bool
    environment: dict[str, str]

    @abstractmethod
    async def collect(self, node: Node) -> list[object]:
        """All that a statement or a block puts out."""

    async def value(self, node: Node) -> object:  # noqa: PLR0911 - one per kind of expression
        """What an expression, or a statement in its place, is."""
        match node:
            case s.Literal():
                return node.value
            case s.Expandable():
                parts = [p if isinstance(p, str) else to_text(await self.value(p)) for p in node.parts]
                return "".join(parts)
            case s.Variable():
                return self.variable(node)
            case s.Array():
                return [await self.value(item) for item in node.items]
            case s.Hash():
                return await self._hash(node)
            case s.SubExpression():
                return await self._group(node)
            case s.ScriptBlock() | s.TypeName():
                return node
            case s.Unary():
                return await self._unary(node)
            case s.Binary():
                return await self._binary(node)
            case s.Cast():
                return await self._cast(node)
            case s.Index():
                return operators.index(await self.value(node.target), await self.value(node.index))
            case s.Member():
                return await self._member(node)
            case s.Assignment():
                return await self.assign(node)
        return unwrap(await self.collect(node))

    async def _group(self, node: s.SubExpression) -> object:
        if node.kind == "(":
            (inner,) = node.body.statements
            if isinstance(inner, (s.If, s.While, s.ForEach, s.Try, s.Jump)):
                raise NotEmulated("a keyword in parentheses")
            return await self.value(inner)
        values = await self.collect(node.body)
        return values if node.kind == "@" else unwrap(values)

    async def _hash(self, node: s.Hash, *, ordered: bool = False) -> HashTable:
        table = HashTable(ordered=ordered)
        for key, item in node.entries:
            name = await self.value(key)
            if table.has(name):
                raise NotEmulated("a hashtable literal with the same key twice")
            table.set(name, await self.value(item))
        return table

    async def _cast(self, node: s.Cast) -> object:
        if node.type_name == "ordered":
            if not isinstance(node.operand, s.Hash):
                raise NotEmulated("[ordered] of something that is no hashtable literal")
            return await self._hash(node.operand, ordered=True)
        value = await self.value(node.operand)
        if node.type_name in self.library.constructors and node.type_name not in ("string",):
            raise NotEmulated(f"the type [{node.type_name}]")
        return cast(node.type_name, value, node)

    # -- variables -------------------------------------------------------------------------------------------

    def variable(self, node: s.Variable) -> object:
        """A variable's value; an unset one is null."""
        match node.scope:
            case "env":
                return self.environment_variable(node.name)
            case "nowhere":
                return None
            case "local":
                return self.scope.variables.get(node.name)
        if node.name == "?":
            return self.succeeded
        return self.scope.get("_" if node.name == "psitem" else node.name)

    def environment_variable(self, name: str) -> str | None:
        """The value; Windows' names are without case."""
        return next((v for k, v in self.environment.items() if k.lower() == name.lower()), None)

    async def assign(self, node: s.Assignment) -> object:
        """``=`` and its relatives; the value is that of the assignment."""
        value = await self.value(node.value)
        if node.operator != "=":
            value = operators.arithmetic(node.operator[0], await self.value(node.target), value, node)
        stored = await self.store(node.target, value)
        if value is None and isinstance(node.target, s.Variable) and not self.is_object(node.value):
            self.scope.nothing.add(node.target.name)
        return stored

    def is_object(self, node: Node) -> bool:
        """Whether an expression whose value is null puts out null as an object, or nothing at all."""
        match node:
            case s.Variable():
                return node.name not in self.scope.nothing
            case s.SubExpression(kind="("):
                return self.is_object(node.body.statements[0])
            case s.Member():
                return node.arguments is None
            case s.Cast():
                return node.type_name != "void"
            case s.Literal() | s.Unary() | s.Binary():
                return True
        return False

    def output_of(self, node: Node, value: object) -> list[object]:
        """What an expression puts out as a statement or at the head of a pipeline."""
        if value is None:
            return [None] if self.is_object(node) else []
        return enumerate_value(value)

    async def store(self, target: Node, value: object) -> object:
        """Assign a value and return what was stored."""
        match target:
            case s.Variable():
                return self._store_variable(target, value)
            case s.Cast():
                if not isinstance(target.operand, s.Variable) or target.operand.scope:
                    raise NotEmulated("this assignment")
                value = cast(target.type_name, value, target)
                self.scope.types[target.operand.name] = target.type_name
                return self._store_variable(target.operand, value)
            case s.Member(static=False, arguments=None):
                owner, name = await self.value(target.target), to_text(await self.value(target.name))
                if isinstance(owner, HashTable):
                    owner.set(name, value)
                elif isinstance(owner, NetObject) and owner.has(name) and not callable(owner.properties.get(name)):
                    owner.put(name, value)
                else:
                    raise NotEmulated(f"assignment to property {name}")
            case s.Index():
                owner, key = await self.value(target.target), await self.value(target.index)
                if owner is None:
                    operators.index(owner, key)
                operators.set_element(owner, key, value)
            case s.Member():
                raise NotEmulated(f"assignment to static property {to_text(await self.value(target.name))}")
            case _:
                raise NotEmulated("this assignment")
        return value

    def _store_variable(self, target: s.Variable, value: object) -> object:
        if target.scope == "env":
            for key in [key for key in self.environment if key.lower() == target.name]:
                del self.environment[key]
            if value is not None and to_text(value):
                self.environment[target.name] = to_text(value)
            return value
        if target.scope == "nowhere":
            raise NotEmulated("assignment to a variable of a drive")
        check_assignable(target.name)
        if target.name in PREFERENCES:
            check_preference(target.name, to_text(value))
        if target.name == "null":
            return value
        scope = self.scope
        if kind := scope.types.get(target.name):
            value = cast(kind, value, target)
        scope.variables["_" if target.name == "psitem" else target.name] = value
        scope.nothing.discard(target.name)
        return value

    # -- operators -------------------------------------------------------------------------------------------

    async def _unary(self, node: s.Unary) -> object:
        value = await self.value(node.operand)
        match node.operator:
            case "not":
                return not truth(value)
            case "-" | "+":
                return operators.negate(value, node.operator, node)
            case ",":
                return [value]
        raise NotEmulated(f"operator -{node.operator}")

    async def _binary(self, node: s.Binary) -> object:
        left = await self.value(node.left)
        operator = node.operator
        if operator in ("and", "or"):
            if truth(left) != (operator == "and"):
                return truth(left)
            return truth(await self.value(node.right))
        right = await self.value(node.right)
        match operator:
            case "+" | "-" | "*" | "/" | "%":
                return operators.arithmetic(operator, left, right, node)
            case "xor":
                return truth(left) != truth(right)
            case "..":
                return operators.numbers_between(left, right)
            case "f":
                return format_text(to_text(left), list(right) if isinstance(right, list) else [right])
        return self.comparison(operator, left, right, sensitive=node.sensitive)

    def comparison(self, operator: str, left: object, right: object, *, sensitive: bool = False) -> object:
        """A comparison; of an array the elements that agree; ``-match`` sets ``$Matches``."""
        if isinstance(left, (list, bytes)):
            return [item for item in left if compare(operator, item, right, lambda _: None, sensitive=sensitive)]
        return compare(operator, left, right, self._remember, sensitive=sensitive)

    def _remember(self, groups: HashTable) -> None:
        self.scope.variables["matches"] = groups

    # -- members ---------------------------------------------------------------------------------------------

    async def _member(self, node: s.Member) -> object:
        owner, name = await self.value(node.target), to_text(await self.value(node.name))
        arguments = None if node.arguments is None else [await self.value(item) for item in node.arguments]
        try:
            if isinstance(owner, s.TypeName) and node.static:
                return await self._static(owner, name, arguments)
            if node.static:
                raise NotEmulated(f"static member {name} of a value")
            if arguments is None:
                return self.property(owner, name)
            return await self.method(owner, name, arguments)
        except Fault as fault:
            fault.at = fault.at or node
            raise

    async def _static(self, owner: s.TypeName, name: str, arguments: list[object] | None) -> object:
        if name.lower() == "new" and arguments is not None:
            make = self.library.constructors.get(owner.name)
            if make is None:
                raise NotEmulated(f"[{owner.name}]::new")
            made = make(self, arguments)  # type: ignore[arg-type]
            return await made if inspect.isawaitable(made) else made
        static = self.library.types.get(owner.name)
        if static is None:
            raise NotEmulated(f"the type [{owner.name}]")
        return await static(self, name.lower(), arguments)  # type: ignore[arg-type]

    def property(self, owner: object, name: str) -> object:
        """A property; of an array without such a one, that of all its elements."""
        key = name.lower()
        if owner is None:
            return 0 if key in ("count", "length") else None
        if isinstance(owner, s.TypeName):
            raise NotEmulated(f"property {name} of a type")
        if isinstance(owner, HashTable):
            return table_property(owner, name)
        if isinstance(owner, NetObject):
            if key in ("count", "length") and not owner.has(name):
                if owner.custom:
                    raise NotEmulated(f"property {name} of a custom object in 5.1")
                return 1
            return owner.get(name)
        if isinstance(owner, list):
            if is_list_property(name):
                return list_property(owner, name)
            found: list[object] = []
            for item in owner:
                if isinstance(item, (HashTable, NetObject)) and not self._has(item, name):
                    continue
                value = self.property(item, name)
                found += enumerate_value(value) if isinstance(value, list) else [value]
            if found and all(entry is None for entry in found):
                return None
            return unwrap(found)
        return plain_property(owner, name)

    @staticmethod
    def _has(item: HashTable | NetObject, name: str) -> bool:
        """Whether a member of an array has the property; others of .NET refuse what they do not know."""
        return item.has(name) or not (isinstance(item, HashTable) or item.custom)

    async def method(self, owner: object, name: str, arguments: list[object]) -> object:
        if owner is None:
            raise Fault(
                "You cannot call a method on a null-valued expression.",
                "InvalidOperation: (:) [], RuntimeException",
                "InvokeMethodOnNull",
                kind="System.Management.Automation.RuntimeException",
            )
        if isinstance(owner, NetObject):
            return await owner.call(name, arguments)
        if isinstance(owner, HashTable):
            return table_method(owner, name, arguments)
        if isinstance(owner, list):
            raise NotEmulated(f"method {name} of an array")
        if isinstance(owner, str) and not isinstance(owner, Char):
            raise NotEmulated(f"method {name} of a string")
        return plain_method(owner, name, arguments)


def whole(value: object) -> int:
    """A number as an exit status or a count."""
    number = to_number(value)
    return int(number) if isinstance(number, (int, Long)) else round(number)
