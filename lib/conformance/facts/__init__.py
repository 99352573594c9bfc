# SPDX-License-Identifier: Apache-2.0
"""What a cluster is: facts with their sources, preflight, rights, what its objects say, what to keep of a failure."""
