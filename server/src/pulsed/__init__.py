"""pulsed, the server of pulse."""

__version__ = "0.1.0"
