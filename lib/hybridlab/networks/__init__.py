# SPDX-License-Identifier: Apache-2.0
"""Networks of pods: the contract of a plane, one folder for each plane, and their registry."""
