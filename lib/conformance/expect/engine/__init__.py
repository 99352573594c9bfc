# SPDX-License-Identifier: Apache-2.0
"""The engine that decides paths: it makes attempts until enough answers agree."""
