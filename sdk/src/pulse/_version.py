"""The version, in one place with the distribution's."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("pulse-sdk")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0"
