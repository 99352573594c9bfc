# SPDX-License-Identifier: Apache-2.0
"""Policies that this run did not make: which exist, which were added or removed, and which results
they excuse."""
