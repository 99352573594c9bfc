# SPDX-License-Identifier: Apache-2.0
# PYTHON_ARGCOMPLETE_OK
"""The program ``calico-conformance``: completes a command line for a shell, or runs the command."""

import gc
import os
import sys
from typing import Any

from conformance import cli

OFFLINE = frozenset({"diff", "gate", "matrix", "policy", "show"})
"""Commands that run without garbage collection, because nearly all of their objects live until the
end."""


def main() -> int:
    """Run the program and return its exit code."""
    # if a shell asks for completions, the process ends after its answer
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    gc.set_threshold(0 if OFFLINE.intersection(sys.argv[1:2]) else gc.get_threshold()[0])
    return cli.main()


def _complete() -> None:
    """Complete commands and names; after ``run``, also the suite's own options."""
    import argcomplete  # needed only if a shell asks for completions

    from conformance.catalog import catalog, kinds
    from conformance.plugin import options  # imports pytest, which is slow

    def claim_ids(**_: object) -> list[str]:
        return list(catalog())

    parser = cli.make_parser()
    (commands,) = (action for action in parser._actions if isinstance(action.choices, dict))
    of_command: Any = commands.choices
    for words in (words for group in options.OPTIONS.values() for words in group):
        name, _, takes = words.partition("=")
        action = of_command["run"].add_argument(name, action="store" if takes else "store_true")
        action.completer = claim_ids if name == "--claim" else None
    for command, argument, names in (
        ("claims", "ids", claim_ids),
        ("kinds", "kind", lambda **_: list(kinds.kinds())),
    ):
        (action,) = (one for one in of_command[command]._actions if one.dest == argument)
        action.completer = names
    argcomplete.autocomplete(parser)


if __name__ == "__main__":
    sys.exit(main())
