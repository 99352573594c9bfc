# SPDX-License-Identifier: Apache-2.0
"""Deliberate defects: each with its scope, injection, removal and verification."""
