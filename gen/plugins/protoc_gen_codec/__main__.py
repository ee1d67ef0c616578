"""Runs the plugin, as `python -m protoc_gen_codec` or by path."""

import sys
from pathlib import Path

if not __package__:
    # Run by path, Python puts this folder on the path and knows no package: the folder above does.
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from protoc_gen_codec.plugin import main

main()
