"""What a file that is given away must not say: where the user's files lie, and what looks like a secret."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

MASK = "••••••"

_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSW|APIKEY|API_KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIAL|COOKIE", re.I)
_LEAST = 8  # characters; what is shorter stands in text for other reasons
_SHAPES = re.compile(
    r"\b(?:hf_|ghp_|gho_|ghs_|github_pat_|glpat-|sk-|xox[abpr]-|AKIA|ASIA|AIza|ya29\.|dckr_pat_|npm_|pypi-)"
    r"[A-Za-z0-9_\-.]{12,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+"
    r"|(?<=://)[^\s/:@'\"]{1,64}:[^\s/@'\"]{1,256}(?=@)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
    re.DOTALL,
)
# the value goes, its name stays: "api_key=…", "'password': '…'", "Authorization: Bearer …"
_NAMED = re.compile(
    r"(?P<name>\b[\w-]{0,40}(?:token|secret|passw(?:or)?d|api_?key|access_?key|authorization)"
    r"(?:['\"]|&quot;|&\#x27;|&\#39;)?\s*[=:]\s*(?:bearer\s+|basic\s+)?(?:['\"]|&quot;|&\#x27;|&\#39;)?)"
    r"(?P<value>(?=[A-Za-z0-9_\-./+=]*\d)[A-Za-z0-9_\-./+=]{16,})",
    re.I,
)


class Privacy:
    """Takes out of a text what is nobody else's. ``masked`` counts the secrets."""

    def __init__(
        self, *, homes: Iterable[tuple[str, str]] = (), environ: Mapping[str, str] | None = None
    ) -> None:
        """``homes`` are paths and what stands for them."""
        known = os.environ if environ is None else environ
        user = [(str(Path.home()), "~"), (os.path.realpath(Path.home()), "~")]
        paths = {path.rstrip("/"): short for path, short in (*user, *homes) if path.strip("/")}
        # the longest first: a home below another one
        self._paths = [(path, paths[path]) for path in sorted(paths, key=len, reverse=True)]
        self._path = re.compile(
            "|".join(rf"{re.escape(path)}(?![\w.-])" for path, _ in self._paths) or r"(?!)"
        )
        secrets = {
            value for name, value in known.items() if _SECRET_NAME.search(name) and len(value) >= _LEAST
        }
        self._secret = re.compile("|".join(map(re.escape, sorted(secrets, key=len, reverse=True))) or r"(?!)")
        self.masked = 0

    def clean(self, text: str) -> str:
        text = self._path.sub(lambda found: dict(self._paths)[found[0]], text)
        text = self._secret.sub(self._masked, text)
        text = _SHAPES.sub(self._masked, text)
        return _NAMED.sub(lambda found: found["name"] + self._masked(found), text)

    def _masked(self, _found: re.Match[str]) -> str:
        self.masked += 1
        return MASK
