# SPDX-License-Identifier: Apache-2.0
# PYTHON_ARGCOMPLETE_OK
"""The ``hybridlab`` command, which is the same as ``python -m hybridlab``."""

import signal


def command() -> int:
    """Run the command; return its exit code.

    Ctrl-C during the import of its modules ends it without a traceback; ``hybridlab up`` handles
    the signal itself afterwards.
    """
    # a shell may have set SIGINT to be ignored; then it stays ignored
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hybridlab.cli.main import main

    return main()


if __name__ == "__main__":
    raise SystemExit(command())
