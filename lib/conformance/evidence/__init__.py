# SPDX-License-Identifier: Apache-2.0
"""What a failure leaves to look at: packets, HNS, Felix, transcripts; and what Windows nodes report
of themselves."""
