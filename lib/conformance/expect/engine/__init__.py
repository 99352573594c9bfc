# SPDX-License-Identifier: Apache-2.0
"""The decision of a path: its attempts, their number, and when answers agree."""
