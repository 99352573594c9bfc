# SPDX-License-Identifier: Apache-2.0
"""The ``hybridlab`` command, which ``python -m hybridlab`` is too."""

import signal


def command() -> int:
    """Run it; returns its exit code.

    Ctrl-C while its modules are imported ends it without a traceback; ``hybridlab up`` then hears the signal itself.
    """
    if (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):  # not where a shell had it ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hybridlab.cli.main import main

    return main()


if __name__ == "__main__":
    raise SystemExit(command())
