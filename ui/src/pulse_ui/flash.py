"""What an action did, told once on the next page."""

import json
from dataclasses import asdict, dataclass

LONGEST = 600


@dataclass(frozen=True)
class Flash:
    """A message; `href` and `link` lead on from it."""

    text: str
    failed: bool = False
    href: str = ""
    link: str = ""

    def write(self) -> str:
        """For a cookie, which has little room."""
        shortened = self.text if len(self.text) <= LONGEST else f"{self.text[:LONGEST]}…"
        return json.dumps(asdict(self) | {"text": shortened}, ensure_ascii=False)

    @staticmethod
    def read(text: str) -> "Flash":
        """What `write` wrote."""
        return Flash(**json.loads(text))
