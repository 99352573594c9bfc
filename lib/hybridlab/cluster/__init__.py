# SPDX-License-Identifier: Apache-2.0
"""The assembly of a lab: the parts, what is installed, and the order of starts and ends."""
