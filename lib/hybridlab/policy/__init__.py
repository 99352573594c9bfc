# SPDX-License-Identifier: Apache-2.0
"""The meaning of policies: computes rules and ACL lists from objects. Pure: it uses only the data
plane's values."""

from typing import Any

Obj = dict[str, Any]
"""An object of the API, in the form of JSON."""
