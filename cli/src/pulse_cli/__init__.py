"""The operator's command line of pulse."""

__version__ = "0.1.0"
