# SPDX-License-Identifier: Apache-2.0
"""The calls of a Protocol over a channel: :func:`client` makes the calling end, :class:`Server` the
answering end.

Both ends are made from the Protocol alone: a new call needs only its contract and implementation.
Arguments and results are sent as JSON by the Protocol's type hints (``shapes`` lists the possible
types), under the method's qualified name, such as ``Dataplane.add_node``. A call that transfers
descriptors is different: it has an explicit form on both ends, and is passed to :func:`client` as
``by_hand``.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import typing
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from hybridlab.kernel.shapes import decoder
from hybridlab.kernel.wire import CallFailed, Channel, Refused

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")


class Caller(typing.Protocol):
    """The calls that a client makes over a channel."""

    async def call(self, method: str, params: object = None) -> Any:
        """Call the other side. Raise CallFailed."""


def client(
    contract: TypeForm[T],
    channel: Caller,
    error: Callable[[str], Exception],
    *,
    by_hand: object = None,
) -> T:
    """Return an object with the Protocol's methods, each of which is a call of the other side.

    Refusals of the other side are raised as ``error``, with the call's name before the message.
    Members of the Protocol that are no coroutine functions, and members that ``by_hand`` has, are
    taken from ``by_hand``.
    """
    protocol = cast("type", contract)
    given = {name: getattr(by_hand, name) for name in _members(protocol) if hasattr(by_hand, name)}
    calls = {call.name: call for call in _calls(protocol) if call.name not in given}
    missing = _members(protocol) - given.keys() - calls.keys()
    if missing:
        raise TypeError(
            f"{', '.join(sorted(missing))} of {protocol.__name__} cannot be a plain call: pass it in by_hand"
        )
    methods = {name: _calling(call, channel, error) for name, call in calls.items()}
    made = type(f"Remote{protocol.__name__}", (), dict[str, object](methods))()
    vars(made).update(given)
    return cast("T", made)


class Server(Generic[T]):
    """The answering end of a Protocol's calls.

    The Protocol and the implementation are given in two calls, so that a type checker compares
    them. In a single call, it would accept any type as their common type.
    """

    def __init__(self, contract: TypeForm[T], channel: Channel) -> None:
        self._contract = cast("type", contract)
        self._channel = channel

    def answer_with(self, implementation: T) -> None:
        """Answer with an implementation's methods; arguments of another form are refused."""
        for call in _calls(self._contract):
            self._channel.register(
                call.method, _answering(call, getattr(implementation, call.name))
            )


@contextlib.contextmanager
def refused_as(error: Callable[[str], Exception], method: str) -> Iterator[None]:
    """Raise refusals of the other side as ``error``, with the call's name before the message."""
    try:
        yield
    except CallFailed as failed:
        raise error(f"{method}: {failed}") from failed


@dataclass(frozen=True)
class _Call:
    """A method of a Protocol that can be called from the other side."""

    name: str
    function: Callable[..., Awaitable[object]]

    @property
    def method(self) -> str:
        return self.function.__qualname__

    @cached_property
    def signature(self) -> inspect.Signature:
        whole = inspect.signature(self.function)
        return whole.replace(parameters=list(whole.parameters.values())[1:])

    @cached_property
    def _hints(self) -> dict[str, Any]:
        return typing.get_type_hints(self.function)

    @cached_property
    def _decoders(self) -> dict[str, Callable[[Any, str], Any]]:
        """Return the decoders by the names of the parameters; only the answering end needs them."""
        return {name: decoder(hint) for name, hint in self._hints.items() if name != "return"}

    @cached_property
    def result(self) -> Callable[[Any, str], Any]:
        """Return the function that converts a received value to the result. Its second argument
        is the value's place, for messages. It raises ShapeError."""
        return decoder(self._hints["return"])

    def arguments(self, params: Any) -> dict[str, object]:
        """Return the received arguments. Raise Refused and ShapeError."""
        names = self.signature.parameters.keys()
        if not isinstance(params, dict) or params.keys() != names:
            found = ", ".join(params) if isinstance(params, dict) else repr(params)
            raise Refused(
                f"expected parameters {', '.join(names) or '(none)'}, got {found or '(none)'}"
            )
        return {name: self._decoders[name](value, name) for name, value in params.items()}


def _members(protocol: type) -> set[str]:
    return {name for name in dir(protocol) if not name.startswith("_")}


def _calls(protocol: type) -> Iterator[_Call]:
    for name in sorted(_members(protocol)):
        function = getattr(protocol, name)
        if inspect.iscoroutinefunction(function):
            yield _Call(name, function)


def _calling(
    call: _Call, channel: Caller, error: Callable[[str], Exception]
) -> Callable[..., Awaitable[object]]:
    method = call.method

    async def remote(_self: object, *args: object, **kwargs: object) -> object:
        bound = call.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        with refused_as(error, method):
            result = await channel.call(method, bound.arguments)
        return call.result(result, method)

    remote.__name__ = call.name
    remote.__qualname__ = method
    return remote


def _answering(
    call: _Call, implementation: Callable[..., Awaitable[object]]
) -> Callable[[Any, list[int]], Awaitable[object]]:
    async def answer(params: Any, fds: list[int]) -> object:
        for fd in fds:
            os.close(fd)
        return await implementation(**call.arguments(params))

    return answer
