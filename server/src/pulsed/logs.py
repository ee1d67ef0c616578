"""Logging: one JSON object a line, on standard error. Payloads, passwords and DSNs never get here."""

import json
import logging
import re
import sys
from datetime import UTC, datetime

STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

# What Postgres adds to an error quotes rows, payloads among them. In a group, each line has a margin.
DETAIL = re.compile(r"\n[ |]*DETAIL:  .*?(?=\n[ |]*HINT:|\n[ |]*\n|\Z)", re.DOTALL)


class JsonFormatter(logging.Formatter):
    """The record as JSON; what was passed as `extra` becomes fields of its own."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        shown = {key: DETAIL.sub("", value) if isinstance(value, str) else value for key, value in line.items()}
        return json.dumps(shown, default=str, ensure_ascii=False)


def configure_logging(level: str) -> None:
    """Sends everything from `level` up to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # It logs every refused call and every client that goes away as an application error.
    logging.getLogger("grpclib").setLevel(logging.CRITICAL)
    # Its pool logs a traceback for each try while the database is away; our loops say it once.
    logging.getLogger("asyncpg").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    # At the debug level it writes every header, credentials among them.
    logging.getLogger("hpack").setLevel(logging.WARNING)
