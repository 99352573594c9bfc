# SPDX-License-Identifier: Apache-2.0
"""Measured figures behind docs/performance.md; nothing here is asserted, nothing here is a test."""
