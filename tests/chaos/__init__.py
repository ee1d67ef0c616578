"""Faults, and what must hold after them: see docs/reliability.md."""
