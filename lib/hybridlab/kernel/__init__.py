# SPDX-License-Identifier: Apache-2.0
"""Namespaces, links, routes and nftables: thin, typed, without policy.

Imports no other package of the lab.
"""
