# SPDX-License-Identifier: Apache-2.0
"""Makes network attempts from pods: returns observations, or raises an exception if the probing
itself failed."""
