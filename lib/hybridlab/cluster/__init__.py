# SPDX-License-Identifier: Apache-2.0
"""The assembly of a lab: who is given whom, what is installed, and in which order everything starts and ends."""
