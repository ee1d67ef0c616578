"""Page tokens: a cursor that only fits the query that it came from."""

import base64
import binascii
import hashlib
import json

from pulsed.errors import InvalidArgument

INT64_MAX = 2**63 - 1


def write_token(query: str, cursor: int | str) -> str:
    """The token for the page after `cursor` of a query."""
    text = json.dumps([_digest(query), cursor])
    return base64.urlsafe_b64encode(text.encode()).decode()


def read_token(query: str, token: str, first: int | str) -> int | str:
    """The cursor in a token; `first` for the first page."""
    if not token:
        return first
    try:
        digest, cursor = json.loads(base64.urlsafe_b64decode(token.encode()))
        valid = digest == _digest(query) and type(cursor) is type(first)
        valid = valid and (isinstance(cursor, str) or 0 <= cursor <= INT64_MAX)
    except (binascii.Error, ValueError, TypeError, RecursionError):
        valid = False
    if not valid:
        raise InvalidArgument("page_token", "does not belong to this query; start again without a page_token")
    assert isinstance(cursor, int | str)
    return cursor


def _digest(query: str) -> str:
    return hashlib.sha256(query.encode()).hexdigest()[:16]
