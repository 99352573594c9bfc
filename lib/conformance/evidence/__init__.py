# SPDX-License-Identifier: Apache-2.0
"""Evidence of a failure: packets, HNS, Felix, transcripts; and the reports of Windows nodes."""
