# SPDX-License-Identifier: Apache-2.0
"""The meaning of policies: objects in, rules and ACL lists out.  Pure: only the data plane's
values."""

from typing import Any

Obj = dict[str, Any]
"""An object of the API, as JSON has it."""
