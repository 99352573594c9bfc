# SPDX-License-Identifier: Apache-2.0
"""The description of a procedure that changes a node: its journal entry, and how it is undone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from conformance.journal.journalling import Journalling


@dataclass(frozen=True, kw_only=True)
class Healer:
    """A procedure that changes a node: its name, its reason, and the function that undoes it. The
    entry of this name in ``journal.restorable`` describes its arguments, and how to undo it by
    hand."""

    name: str
    """Name in the journal."""
    why: str
    """Description of the coming change, with ``{node}`` for the node's name."""
    undo: Callable[[Any, Mapping[str, Any]], object]
    """Undoes the procedure with a cluster's ``Disruptions`` and the recorded arguments, and
    verifies the result. Raises EnvironmentBroken if the node does not work again."""

    def note(self, journal: Journalling, node: str, **more: Any) -> Any:
        """Record the procedure before it begins; return the entry, which is closed once the node
        works again."""
        return journal.procedure(self.name, {"node": node, **more}, self.why.format(node=node))
