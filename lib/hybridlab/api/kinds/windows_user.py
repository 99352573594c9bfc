# SPDX-License-Identifier: Apache-2.0
"""``runAsUserName`` of Windows containers: ``USER`` or ``DOMAIN\\USER``, with the API server's wording."""

import re
from collections.abc import Iterator

from hybridlab.api.contract import Obj
from hybridlab.api.errors import Cause
from hybridlab.api.kinds.values import malformed

LONGEST_USER = 104
LONGEST_DOMAIN = 256
_NETBIOS = re.compile(r"^[^\\/:*?\"<>|.][^\\/:*?\"<>|]{0,14}$")
_DNS = re.compile(
    r"^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?)*$"
)
_FORBIDDEN_IN_USER = re.compile(r"[\"/\\:;|=,+*?<>@\[\]]")


def user_name_problems(spec: Obj, at: str) -> Iterator[Cause]:
    """Yield the faults of the user names of a pod and its containers."""
    yield from _problems(spec.get("securityContext") or {}, f"{at}.securityContext")
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            yield from _problems(
                container.get("securityContext") or {}, f"{at}.{group}[{index}].securityContext"
            )


def _problems(context: Obj, at: str) -> Iterator[Cause]:
    name = (context.get("windowsOptions") or {}).get("runAsUserName")
    if name is not None:
        yield from malformed(f"{at}.windowsOptions.runAsUserName", name, user_name_problem(name))


def user_name_problem(name: str) -> str:
    """Describe the fault of a user name; return an empty string if the name is valid."""
    if not name:
        return "runAsUserName cannot be an empty string"
    if any(ord(char) < 32 or ord(char) == 127 for char in name):
        return "runAsUserName cannot contain control characters"
    domain, backslash, user = name.rpartition("\\")
    return (_domain_problem(domain) if backslash else "") or _user_problem(user)


def _domain_problem(domain: str) -> str:
    if "\\" in domain:
        return "runAsUserName cannot contain more than one backslash"
    if len(domain) >= LONGEST_DOMAIN:
        return f"runAsUserName's Domain length must be under {LONGEST_DOMAIN} characters"
    if not (_NETBIOS.match(domain) or _DNS.match(domain)):
        return "runAsUserName's Domain doesn't match the NetBios nor the DNS format"
    return ""


def _user_problem(user: str) -> str:
    if not user:
        return "runAsUserName's User cannot be empty"
    if len(user) > LONGEST_USER:
        return f"runAsUserName's User length must not be longer than {LONGEST_USER} characters"
    if not user.strip(". "):
        return "runAsUserName's User cannot contain only periods or spaces"
    if _FORBIDDEN_IN_USER.search(user):
        return "runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"
    return ""
