# SPDX-License-Identifier: Apache-2.0
"""Expectations in a world of policies, cell by cell."""
