# SPDX-License-Identifier: Apache-2.0
"""The evaluation of expressions. The interpreter evaluates the statements and pipelines that
expressions contain."""

import re
from abc import ABC, abstractmethod

from hybridlab.powershell import operators
from hybridlab.powershell import syntax as s
from hybridlab.powershell.faults import Fault
from hybridlab.powershell.objects import (
    HashTable,
    NetObject,
    enumerate_value,
    to_text,
    truth,
    unwrap,
)
from hybridlab.powershell.shell import Library
from hybridlab.powershell.syntax import Node, NotEmulated
from hybridlab.runtime.applet import Process

_CONSTANT = frozenset(("true", "false", "null", "_", "lastexitcode", "executioncontext"))
"""Variables to which a script cannot assign, or to which an assignment has an effect that is not
emulated."""
_HOLE = re.compile(r"\{(\d+)(:x4)?\}")
_PREFERENCE = "preference"
"""The ending of the names of variables that change the behaviour of commands; of these, only
``$ErrorActionPreference`` is emulated."""


class Evaluation(ABC):
    """The values of syntax nodes, and the effects of assignments."""

    process: Process
    library: Library
    variables: dict[str, object]

    @abstractmethod
    async def collect(self, node: Node) -> list[object]:
        """Return all output of a statement."""

    async def value(self, node: Node) -> object:  # noqa: PLR0911 - one per kind of expression
        """Return the value of an expression, or of a statement that is used as an expression."""
        match node:
            case s.Literal():
                return node.value
            case s.Variable():
                return self.variable(node)
            case s.Array():
                return [await self.value(item) for item in node.items]
            case s.Hash():
                return HashTable()
            case s.Group():
                return await self.value(node.inner)
            case s.If() | s.While() | s.ForEach() | s.Try() | s.End() | s.Assignment():
                raise NotEmulated("a keyword or an assignment as a value")
            case s.ScriptBlock() | s.TypeName():
                return node
            case s.Binary():
                return await self._binary(node)
            case s.Cast():
                return operators.cast(node.type_name, await self.value(node.operand))
            case s.Index():
                return operators.index(await self.value(node.target), await self.value(node.index))
            case s.Member():
                return await self._member(node)
        return unwrap(await self.collect(node))

    def variable(self, node: s.Variable) -> object:
        """Return a variable's value.

        An unset environment variable is null. The names of environment variables ignore case.
        """
        if node.environment:
            return next((v for k, v in self.process.env.items() if k.lower() == node.name), None)
        if node.name not in self.variables:
            raise NotEmulated(f"the variable ${node.name}, which this script does not set")
        return self.variables[node.name]

    async def assign(self, node: s.Assignment) -> None:
        value = await self.value(node.value)
        if node.operator == "+=":
            value = operators.add(await self.value(node.target), value)
        match node.target:
            case s.Variable():
                self.store_variable(node.target, value)
            case s.Member(static=False, arguments=None):
                owner = await self.value(node.target.target)
                name = node.target.name
                if (
                    not isinstance(owner, NetObject)
                    or not owner.has(name)
                    or callable(owner.properties.get(name))
                ):
                    raise NotEmulated(f"assignment to property {name}")
                owner.put(name, value)
            case s.Index():
                owner = await self.value(node.target.target)
                key = await self.value(node.target.index)
                if not isinstance(owner, HashTable):
                    raise NotEmulated("assignment to an element of this value")
                owner.set(key, value)
            case _:
                raise NotEmulated("this assignment")

    def store_variable(self, target: s.Variable, value: object) -> None:
        """Set a variable.

        Raise NotEmulated if the variable has a side effect that is not emulated.
        """
        preference = target.name.endswith(_PREFERENCE) and target.name != "erroractionpreference"
        if target.environment or target.name in _CONSTANT or preference:
            raise NotEmulated(f"assignment to ${target.name}")
        if target.name == "erroractionpreference":
            error_action(value)
        self.variables[target.name] = value

    def output_of(self, node: Node, value: object) -> list[object]:
        """Return the output of an expression that is a statement or begins a pipeline.

        Null is output only where PowerShell treats it as a value.
        """
        if value is not None:
            return enumerate_value(value)
        match node:
            case s.Variable(name="_") | s.Variable(name="null") | s.Member(arguments=None):
                return [None]
            case s.Member() | s.Pipeline():
                return []
            case s.Group():
                return self.output_of(node.inner, value)
        raise NotEmulated("null as output of this expression")

    async def _binary(self, node: s.Binary) -> object:
        left = await self.value(node.left)
        operator = node.operator
        if operator in ("and", "or"):
            if truth(left) != (operator == "and"):
                return truth(left)
            return truth(await self.value(node.right))
        right = await self.value(node.right)
        if operator == "+":
            return operators.add(left, right)
        if operator == "f":
            return _formatted(to_text(left), list(right) if isinstance(right, list) else [right])
        return self.comparison(operator, left, right, sensitive=node.sensitive)

    def comparison(
        self, operator: str, left: object, right: object, *, sensitive: bool = False
    ) -> bool:
        """Return the result of a comparison; ``-match`` sets ``$Matches``."""

        def remember(groups: HashTable) -> None:
            self.variables["matches"] = groups

        return operators.compare(operator, left, right, remember, sensitive=sensitive)

    async def _member(self, node: s.Member) -> object:
        owner = await self.value(node.target)
        name = node.name
        arguments = (
            None if node.arguments is None else [await self.value(item) for item in node.arguments]
        )
        try:
            if isinstance(owner, s.TypeName):
                return await self._static(owner, name, arguments)
            if node.static:
                raise NotEmulated(f"static member {name} of a value")
            if arguments is None:
                return self.property(owner, name)
            return await _method(owner, name, arguments)
        except Fault as fault:
            fault.at = fault.at or node
            raise

    async def _static(self, owner: s.TypeName, name: str, arguments: list[object] | None) -> object:
        static = self.library.types.get(owner.name)
        if static is None:
            raise NotEmulated(f"the type [{owner.name}]")
        return await static(self, name.lower(), arguments)  # type: ignore[arg-type]

    def property(self, owner: object, name: str) -> object:
        """Return a property's value. If an array lacks the property, return the values of its
        elements' property."""
        key = name.lower()
        match owner:
            case None:
                return 0 if key in ("count", "length") else None
            case NetObject():
                return owner.get(name)
            case HashTable() if key == "keys" and not owner.has(name):
                return owner.keys()
            case list():
                return len(owner) if key in ("count", "length") else self._of_members(owner, name)
            case str() | bytes() if key == "length":
                return len(owner)
            case str() if key not in ("count", "chars") and not key.startswith("ps"):
                return None
        raise NotEmulated(f"property {name} of this value")

    def _of_members(self, owner: list[object], name: str) -> object:
        if not all(isinstance(item, NetObject) for item in owner):
            raise NotEmulated(f"property {name} of this value")
        found = [self.property(item, name) for item in owner]
        if any(value is None for value in found):
            raise NotEmulated(f"property {name} of an array: null for one of its members")
        return unwrap([value for entry in found for value in enumerate_value(entry)])


def error_action(wanted: object) -> str:
    """Return an ErrorAction in lower case.  Raise NotEmulated for an unsupported action."""
    action = to_text(wanted).lower()
    if action not in ("continue", "silentlycontinue", "stop"):
        raise NotEmulated(f"the ErrorAction {action}")
    return action


async def _method(owner: object, name: str, arguments: list[object]) -> object:
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
        match name.lower(), arguments:
            case (("get_item" | "item"), [key]):
                return owner.get(key)
            case "set_item", [key, value]:
                owner.set(key, value)
                return None
    if (
        isinstance(owner, str)
        and name.lower() == "replace"
        and len(arguments) == 2
        and arguments[0]
    ):
        return owner.replace(to_text(arguments[0]), to_text(arguments[1]))
    raise NotEmulated(f"method {name} of this value")


def _formatted(template: str, arguments: list[object]) -> str:
    """Format by ``-f``.

    A placeholder is a plain number such as ``{0}``, or requests four hexadecimal digits.
    """
    holes = [int(hole[1]) for hole in _HOLE.finditer(template)]
    if set(_HOLE.sub("", template)) & set("{}") or any(hole >= len(arguments) for hole in holes):
        raise NotEmulated(f"the format {template}")
    if any(isinstance(argument, (list, bytes)) for argument in arguments):
        raise NotEmulated("-f of an array")

    def filled(hole: re.Match[str]) -> str:
        argument = arguments[int(hole[1])]
        if not hole[2]:
            return to_text(argument)
        if isinstance(argument, bool) or not isinstance(argument, int):
            raise NotEmulated(f"the format {template} of this value")
        return f"{argument:04x}"

    return _HOLE.sub(filled, template)
