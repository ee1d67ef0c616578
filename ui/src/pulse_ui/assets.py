"""The files that pages load. Their addresses hold a digest of their content, so browsers may keep them for good."""

import hashlib
import mimetypes
from importlib.resources import files
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

FOR_GOOD = "public, max-age=31536000, immutable"


class Assets:
    """All of them, in memory: they are few and small."""

    def __init__(self) -> None:
        self._contents = dict(_read("static", PurePosixPath()))
        self._digests = {name: hashlib.sha256(content).hexdigest()[:12] for name, content in self._contents.items()}

    def url(self, name: str) -> str:
        """Where a page finds it."""
        return f"/static/{self._digests[name]}/{name}"

    async def serve(self, request: Request) -> Response:
        """GET /static/{digest}/{name}"""
        name = request.path_params["name"]
        if self._digests.get(name) != request.path_params["digest"]:
            return PlainTextResponse("There is no such file.\n", status_code=404)
        media_type = mimetypes.guess_type(name)[0]
        return Response(self._contents[name], media_type=media_type, headers={"Cache-Control": FOR_GOOD})


def _read(folder: str, below: PurePosixPath) -> list[tuple[str, bytes]]:
    found = []
    for entry in files("pulse_ui").joinpath(folder, *below.parts).iterdir():
        if entry.is_dir():
            found += _read(folder, below / entry.name)
        else:
            found.append((str(below / entry.name), entry.read_bytes()))
    return found
