# SPDX-License-Identifier: Apache-2.0
"""Policies that this run did not make: which are there, which came and went, and what they
excuse."""
