# SPDX-License-Identifier: Apache-2.0
"""The limits of open files: of the lab's processes, of the programs that they start, and the number
that a lab needs.

Each of two processes holds a descriptor of every exec, pod and node. A login's usual limit (1,024)
is low for the sake of programs that use select(). The lab's own processes do not use select(): they
raise their limit, and restore the login's limit in every program that they start.
"""

import errno
import resource
from collections.abc import Callable

LIMIT = 65_536
"""The limit of the lab's processes, if the hard limit allows it."""
FOR_A_RUN = 1_280
"""The number of open files that a process of a small lab needs while one worker runs the whole
suite on it: 1,148 of labd, measured."""
FOR_A_NODE = 8
"""The number of open files for each further node: 7.2 descriptors of labd, measured from 50 to 300
nodes, with their system pods."""
LACK = "this machine allows too few open files"
"""The beginning of every line about open files."""
LACKS = (errno.EMFILE, errno.ENFILE)

_listeners: list[Callable[[str], object]] = []
_login = resource.getrlimit(resource.RLIMIT_NOFILE)


def raise_limit() -> None:
    """Raise this process' limit to the hard limit, at most to :data:`LIMIT`."""
    soft, hard = _login
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, LIMIT)), hard))


def restore_limit() -> None:
    """Restore the limit with which this process was started; called in a child before it becomes
    another program."""
    resource.setrlimit(resource.RLIMIT_NOFILE, _login)


def lack(nodes: int) -> str:
    """Return the reason why a lab of ``nodes`` nodes cannot run here; return an empty string if it
    can run."""
    needed = FOR_A_RUN + FOR_A_NODE * nodes
    hard = _login[1]
    if hard >= needed:
        return ""
    return f"{LACK}: a process of a lab with {nodes} nodes needs up to {needed:,}, but the hard limit is {hard:,}; {REMEDY}"


REMEDY = (
    "an administrator can raise it: nofile in /etc/security/limits.conf, LimitNOFILE= of a systemd unit, "
    "or --ulimit nofile=65536 of docker run"
)


def listen(listener: Callable[[str], object]) -> None:
    """Register a listener for the message (one line) that no more files can be opened."""
    _listeners.append(listener)


def notice(error: BaseException | None) -> bool:
    """Return whether an error means that no more files can be opened; then call the listeners."""
    while error is not None:
        if (number := getattr(error, "errno", None)) in LACKS:
            for listener in _listeners:
                listener(exhausted(number))
            return True
        error = error.__cause__ or error.__context__
    return False


def exhausted(number: int) -> str:
    """Return one line about a limit that was reached: of this process (EMFILE) or of the whole
    machine (ENFILE)."""
    if number == errno.ENFILE:
        return (
            f"{LACK}: the whole machine's limit is reached; raise it: sysctl -w fs.file-max=1000000"
        )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return f"{LACK}: a process has all its {soft:,} files open, and the hard limit is {hard:,}; {REMEDY}"
