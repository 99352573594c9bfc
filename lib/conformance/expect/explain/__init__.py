# SPDX-License-Identifier: Apache-2.0
"""What a failed expectation says: the first line, what was seen, why, and what to do."""
