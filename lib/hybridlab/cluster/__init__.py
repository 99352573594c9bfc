# SPDX-License-Identifier: Apache-2.0
"""Puts a lab together: the parts, the installed objects, and the order of starts and ends."""
