# SPDX-License-Identifier: Apache-2.0
"""Networks of pods. A plane is a way to carry pods' packets: here are its contract, a folder for
each plane, and the registry of planes."""
