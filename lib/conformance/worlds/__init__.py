# SPDX-License-Identifier: Apache-2.0
"""What is expected in a world of policies, cell by cell."""
