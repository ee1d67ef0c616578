"""Whether this server is ready: its database answers and it is not shutting down."""

import asyncio


class Health:
    """One flag, and a way to wait for its change."""

    def __init__(self) -> None:
        self.ready = False
        self.changed = asyncio.Event()

    def set_ready(self, ready: bool) -> None:
        """Notes the state and wakes those who watch."""
        if ready != self.ready:
            self.ready = ready
            self.changed.set()
            self.changed = asyncio.Event()
