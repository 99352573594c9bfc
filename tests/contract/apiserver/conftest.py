# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests with kubectl: the lab's API server in a thread of its own."""

from __future__ import annotations

from tests.unit.hybridlab.api.conftest import api, authority, threaded

__all__ = ["api", "authority", "threaded"]
