# SPDX-License-Identifier: Apache-2.0
"""The meaning of policies: computes rules and ACL lists from objects. Of the lab's other packages
it imports only value classes, from the data plane and the profiles."""

from typing import Any

Obj = dict[str, Any]
"""An object of the API, in the form of JSON."""
