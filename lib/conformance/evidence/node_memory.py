"""What tests find out about nodes by looking into them: once for each node in a run, whichever
process asks."""

import threading
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from conformance.model.facts import Fact

T = TypeVar("T")


class NodeMemory(Generic[T]):
    """One fact about each node; thread-safe."""

    def __init__(
        self,
        learn: Callable[[str, Fact[T]], object],
        learnt: Callable[[], Mapping[str, Fact[T]]] = dict,
        *,
        known: Mapping[str, Fact[T]] | None = None,
    ) -> None:
        """``learn`` is told what was found out; ``learnt`` says what the run's other processes have
        found out.

        What is ``known`` by node beforehand is not asked for.
        """
        self._learn = learn
        self._learnt = learnt
        self._lock = threading.Lock()
        self._known = dict(known or {})

    def of(self, node: str, read: Callable[[], Fact[T]]) -> Fact[T]:
        """What is known of a node; where nobody has asked yet, what ``read`` finds.  Raises as that
        does."""
        with self._lock:
            if node not in self._known:
                self._known = {**self._learnt(), **self._known}
            if node not in self._known:
                self._known[node] = fact = read()
                self._learn(node, fact)
            return self._known[node]
