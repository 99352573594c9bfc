# SPDX-License-Identifier: Apache-2.0
"""The meaning of policies: rules and ACL lists, computed from objects.

Of the lab's other packages, this package imports only value classes, from the data plane and the
profiles.
"""

from typing import Any

Obj = dict[str, Any]
"""An object of the API, in the form of JSON."""
