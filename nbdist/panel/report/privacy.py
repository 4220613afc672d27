"""What a file that is given away must not say: where the user's files lie, and what looks like a secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from nbdist.privacy import MASK, SHAPES, is_secret_name

_LEAST = 6  # characters; what is shorter stands in text for other reasons
# the value goes, its name stays: "api_key=…", "'password': '…'", "Authorization: Bearer …"
_NAMED = re.compile(
    r"(?P<name>\b[\w-]{0,40}(?:token|secret|passw(?:or)?d|api_?key|access_?key|authorization)"
    r"(?:['\"]|&quot;|&\#x27;|&\#39;)?\s*[=:]\s*(?:bearer\s+|basic\s+)?(?:['\"]|&quot;|&\#x27;|&\#39;)?)"
    r"(?P<value>(?=[A-Za-z0-9_\-./+=]*\d)[A-Za-z0-9_\-./+=]{16,})",
    re.I,
)


class Privacy:
    """Takes out of a text what is private. ``masked`` counts the secrets."""

    def __init__(
        self,
        *,
        homes: Iterable[tuple[str, str]] = (),
        environ: Mapping[str, str] | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        """``homes`` are paths and what stands for them; ``secrets`` are known besides those that the
        environment holds."""
        known = os.environ if environ is None else environ
        user = [(str(Path.home()), "~"), (os.path.realpath(Path.home()), "~")]
        paths = {path.rstrip("/"): short for path, short in (*user, *homes) if path.strip("/")}
        # the longest first: a home below another one
        self._paths = [(path, paths[path]) for path in sorted(paths, key=len, reverse=True)]
        self._path = re.compile(
            "|".join(rf"{re.escape(path)}(?![\w.-])" for path, _ in self._paths) or r"(?!)"
        )
        named = (value for name, value in known.items() if is_secret_name(name))
        long = {value for value in (*named, *secrets) if len(value) >= _LEAST}
        self._secret = re.compile("|".join(map(re.escape, sorted(long, key=len, reverse=True))) or r"(?!)")
        self.masked = 0

    def clean(self, text: str) -> str:
        text = self._path.sub(lambda found: dict(self._paths)[found[0]], text)
        text = self._secret.sub(self._masked, text)
        text = SHAPES.sub(self._masked, text)
        return _NAMED.sub(lambda found: found["name"] + self._masked(found), text)

    def _masked(self, _found: re.Match[str]) -> str:
        self.masked += 1
        return MASK
