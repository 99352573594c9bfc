# SPDX-License-Identifier: Apache-2.0
"""The deviations of Calico's own API server (projectcalico.org/v3) in some releases."""

import re

from hybridlab.api.contract import ApiError
from hybridlab.api.errors import not_found
from hybridlab.api.requests import Target

GROUP = "projectcalico.org"
FIRST_WITH_YAML = (3, 22, 0)
"""The first version that has a serializer for YAML, the format of a server-side apply; older
versions have none (projectcalico/calico#4959)."""
APPLIES_NOTHING_NEW = (3, 32, 0)
"""The version that refuses to apply a new policy: its storage reads a policy before it updates it,
and treats an apply of a new policy as an update (projectcalico/calico#12841, corrected in v3.32.1).
"""
READ_FIRST = frozenset({"networkpolicies", "globalnetworkpolicies"})


def release(version: str) -> tuple[int, ...]:
    """Return the numbers of a version: ``v3.31.2`` gives (3, 31, 2)."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def apply_refused(version: str, target: Target, *, exists: bool) -> ApiError | None:
    """Return why the server of this version of Calico refuses a server-side apply; None if the
    server accepts the apply."""
    resource = target.resource
    if resource.group != GROUP:
        return None
    if release(version) < FIRST_WITH_YAML:
        return ApiError(500, "", "no serializer defined for application/yaml")
    if release(version) == APPLIES_NOTHING_NEW and resource.plural in READ_FIRST and not exists:
        return not_found(resource.plural, resource.group, target.name or "")
    return None
