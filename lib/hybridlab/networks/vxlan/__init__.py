# SPDX-License-Identifier: Apache-2.0
"""Calico's VXLAN overlay."""
