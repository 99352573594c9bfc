# SPDX-License-Identifier: Apache-2.0
"""Expectations about traffic, and the messages of their failures."""
