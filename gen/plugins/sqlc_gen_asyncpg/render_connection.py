"""Write connection.py: what the generated code asks of asyncpg.

asyncpg ships no types (no py.typed), and its connection, pool and the proxies that
`pool.acquire()` gives share no base class. A protocol fits all three, with or without
asyncpg-stubs, and keeps asyncpg out of the imports of the generated code.
"""

from sqlc_gen_asyncpg.render_source import PLUGIN_SOURCE, module

_PROTOCOL = '''\
class Connection(Protocol):
    """An asyncpg connection, a pool, or the proxy that `pool.acquire()` gives."""

    async def execute(self, query: str, /, *args: Any, timeout: float | None = None) -> str:
        """Return the command tag."""
        ...

    async def fetch(self, query: str, /, *args: Any, timeout: float | None = None) -> list[Any]:
        """Return all records."""
        ...

    async def fetchrow(self, query: str, /, *args: Any, timeout: float | None = None) -> Any:
        """Return the first record, or None."""
        ...

    async def fetchval(self, query: str, /, *args: Any, timeout: float | None = None) -> Any:
        """Return the first column of the first record, or None."""
        ...'''


def render_connection() -> str:
    """The source of connection.py, the same for every schema."""
    return module(PLUGIN_SOURCE, [["from typing import Any, Protocol"]], [_PROTOCOL])
