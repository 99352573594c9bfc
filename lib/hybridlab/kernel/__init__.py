# SPDX-License-Identifier: Apache-2.0
"""Namespaces, links, routes and nftables: thin, typed, without policy.

It imports no other package of the lab.
"""
