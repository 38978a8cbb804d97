#!/usr/bin/env python3
"""The judge judged: all its tests. A check that cannot fail is worth nothing."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from test_attribution import *  # noqa: E402, F403
from test_checks import *  # noqa: E402, F403
from test_inputs import *  # noqa: E402, F403
from test_rows import *  # noqa: E402, F403

if __name__ == "__main__":
    unittest.main()
