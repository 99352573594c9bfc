# SPDX-License-Identifier: Apache-2.0
"""Pods' packets as they are, by routes that no part of Calico makes."""
