# SPDX-License-Identifier: Apache-2.0
"""Expectations by subject: pages, sizes, streams, backends of Services and so on."""
