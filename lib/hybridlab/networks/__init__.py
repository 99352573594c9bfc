# SPDX-License-Identifier: Apache-2.0
"""Networks of pods: a contract, one folder a plane that fulfils it, and the registry of those that are built."""
