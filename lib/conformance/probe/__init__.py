# SPDX-License-Identifier: Apache-2.0
"""Asking pods to make network attempts: observations, or an exception when the asking broke."""
