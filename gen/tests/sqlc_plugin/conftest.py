"""Make the plugin and this folder's helper importable: neither is in a distribution."""

import sys
from pathlib import Path

HERE = Path(__file__).parent

sys.path[:0] = [str(HERE), str(HERE.parent.parent / "plugins")]
