# SPDX-License-Identifier: Apache-2.0
"""Calico: IPAM, Felix (watches the API, programs the data plane), policy resolution, its own API objects."""
