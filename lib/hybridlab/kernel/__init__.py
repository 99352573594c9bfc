# SPDX-License-Identifier: Apache-2.0
"""Namespaces, links, routes and nftables: thin, typed, no policy in it.  Imports no other package of the lab."""
