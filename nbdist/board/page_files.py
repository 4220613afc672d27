"""The files of VisualDL's page, edited on their way to the browser."""

from __future__ import annotations

import mimetypes
import os
from collections.abc import Mapping
from pathlib import Path

from flask import Response, abort
from werkzeug.security import safe_join

from nbdist.board.patching import VisualDLChangedError


class PageFiles:
    """Stands for ``Template``: the files of the page, for one address.

    ``edits``: by file, what is replaced in it, and by what.
    """

    def __init__(self, edits: Mapping[str, tuple[str, str]], path: str, **context: str) -> None:
        self._edits = edits
        self._root = path
        self._context = {"API_TOKEN_KEY": "", **context}
        for name, (old, _) in edits.items():
            if old not in Path(path, name).read_text(encoding="utf-8"):
                raise VisualDLChangedError(f"{name} has no {old}")

    def render(self, name: str) -> Response:
        path = safe_join(self._root, name)
        if path is None or not os.path.isfile(path):
            abort(404)
        content = Path(path).read_bytes()
        if path.endswith((".html", ".js", ".css")):
            text = content.decode("utf-8").replace(*self._edits.get(name, ("", "")))
            for key, value in self._context.items():
                text = text.replace("{{" + key + "}}", value)
            content = text.encode("utf-8")
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        response = Response(content, mimetype=kind)
        if not name.endswith(".html"):
            response.cache_control.max_age = 3600  # the address changes with every server
        return response
