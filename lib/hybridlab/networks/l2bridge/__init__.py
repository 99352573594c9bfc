# SPDX-License-Identifier: Apache-2.0
"""Calico without encapsulation, by BGP, on l2bridge networks of Windows nodes; experimental."""
