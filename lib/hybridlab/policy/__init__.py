# SPDX-License-Identifier: Apache-2.0
"""What a policy means: objects in, rules and ACL lists out.  Pure: no clock, no API, only the data plane's values."""

from typing import Any

Obj = dict[str, Any]
"""An object of the API, as JSON has it."""
