# SPDX-License-Identifier: Apache-2.0
"""``python -m conformance.cli``."""

import sys

from conformance.cli import main

if __name__ == "__main__":
    sys.exit(main())
