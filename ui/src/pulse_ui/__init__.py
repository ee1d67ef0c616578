"""The dashboard of pulse."""

__version__ = "0.1.0"
