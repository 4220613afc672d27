"""What may be secret: whose values are written down, and what is masked where arguments are shown. Decided
here alone, for all that writes or shows them.

Of a variable the value is written down only where its name is known to be harmless: no value is harmless by
its looks. An argument is needed by the supervisor, so it is written into the run's own directory and masked
wherever it leaves that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MASK = "•••"

_HARMLESS = frozenset(
    {"COLUMNS", "FORCE_COLOR", "LANG", "LANGUAGE", "LINES", "MPLBACKEND", "NO_COLOR", "TERM", "TZ"}
    | {"HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE", "TOKENIZERS_PARALLELISM", "TRANSFORMERS_OFFLINE"}
    | {"LD_LIBRARY_PATH", "NBDIST_FIGURES", "NBDIST_HOME", "NVIDIA_TF32_OVERRIDE", "PATH", "TMPDIR"}
    | {"NVIDIA_VISIBLE_DEVICES"}
    | {"PYTHONASYNCIODEBUG", "PYTHONBREAKPOINT", "PYTHONCOERCECLOCALE", "PYTHONDEVMODE"}
    | {"PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED", "PYTHONHOME", "PYTHONINSPECT"}
    | {"PYTHONINTMAXSTRDIGITS", "PYTHONIOENCODING", "PYTHONMALLOC", "PYTHONMALLOCSTATS"}
    | {"PYTHONNODEBUGRANGES", "PYTHONNOUSERSITE", "PYTHONOPTIMIZE", "PYTHONPATH", "PYTHONPERFSUPPORT"}
    | {"PYTHONPROFILEIMPORTTIME", "PYTHONPYCACHEPREFIX", "PYTHONSAFEPATH", "PYTHONTRACEMALLOC"}
    | {"PYTHONUNBUFFERED", "PYTHONUTF8", "PYTHONVERBOSE", "PYTHONWARNINGS"}
    | {"PYTHON_COLORS", "PYTHON_CPU_COUNT", "PYTHON_GIL"}
)
# what a library that computes reads, and its makers name
_FAMILIES = (
    *("BLIS_", "CUBLAS_", "CUDA_", "CUDNN_", "DNNL_", "FLAGS_", "GLOG_", "GLOO_", "GOMP_", "KMP_", "LC_"),
    *("MALLOC_", "MKL_", "NCCL_", "NUMEXPR_", "OMP_", "ONEDNN_", "OPENBLAS_", "PADDLE_", "PYTORCH_"),
    *("TF_CPP_", "TORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "UCX_", "VECLIB_", "XLA_"),
)
# a member of such a family that leads elsewhere, and may bring a name and a password along
_DOORS = frozenset(
    {"account", "addr", "address", "cert", "dsn", "endpoint", "endpoints", "header", "headers", "host"}
    | {"license", "login", "proxy", "sas", "server", "sign", "signing", "uri", "url", "user", "webhook"}
)

# anywhere in a name, whatever stands between their letters
_ALWAYS = ("password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey", "credential")
_LAST = frozenset(
    {"auth", "authorization", "bearer", "cookie", "dsn", "key", "keys", "pass", "passcode", "pat", "pin"}
    | {"pw", "pwd", "sig", "signature", "token"}
)
# a token of a text, a key of a table
_TEXT_TOKENS = frozenset({"bos", "cls", "end", "eos", "image", "mask", "pad", "sep", "start", "unk"})
_TABLE_KEYS = frozenset(
    {"column", "dict", "feature", "foreign", "group", "image", "label", "primary", "sort", "target", "text"}
)
_OF_SHELLS = frozenset({"PWD", "OLDPWD"})

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_FLAG = re.compile(r"-{1,2}([A-Za-z][\w.\-]*)")
_SETTING = re.compile(r"[-+~]*([\w.\-/@]+)=(.+)", re.DOTALL)
# what begins a value within a word: 'password=', '"api_key": "', 'X-Api-Key: ', '--token '
_NAMED = re.compile(
    r"(?<![\w.\-])(?P<name>[\w.\-]{1,100})"
    r"(?:['\"]?\s{0,9}[=:]\s{0,9}|(?<=[\w])\s{1,9}(?=[^\s=:\-]))"
    r"(?:(?i:bearer|basic|token)\s{1,9})?(?P<quote>['\"])?"
)
_BARE = re.compile(r"[^\s'\",;&}\])]+")
_QUOTED = re.compile(r"[^'\"]*")
SHAPES = re.compile(
    r"\b(?:hf_|ghp_|gho_|ghs_|ghu_|ghr_|github_pat_|glpat-|sk-|xox[abpr]-|AKIA|ASIA|AIza|ya29\.|dckr_pat_|npm_"
    r"|pypi-)[A-Za-z0-9_\-.]{12,}"
    r"|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]+"
    r"|(?<=://)[^\s/:@'\"]{1,64}:[^\s/@'\"]{1,256}(?=@)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----",
    re.DOTALL,
)
"""What is a secret by its shape, wherever it stands."""

_USER = re.compile(r"(?<=://)[^\s/?#'\"<>]{1,1000}(?=@)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """What is to be masked in one of several words, and the name that it has there; empty for none."""

    word: int
    start: int
    end: int
    name: str


def may_be_written(name: str, value: str) -> bool:
    """Whether a variable is known to be harmless. What a harmless one holds is looked at, too: it may still
    be an address with a password."""
    known = name in _HARMLESS or name.startswith(_FAMILIES)
    leads = is_secret_name(name) or not _DOORS.isdisjoint(_words_of(name))
    return known and not leads and MASK not in value and masked_text(value) == value


def without_values(variables: Mapping[str, str] | Iterable[tuple[str, str]]) -> dict[str, str]:
    """The variables as they may be written: a mask for the value of each that is not known to be harmless."""
    return {name: value if may_be_written(name, value) else MASK for name, value in dict(variables).items()}


def is_secret_name(name: str) -> bool:
    """Whether what has this name is a secret: a flag, a setting or a variable."""
    words = _words_of(name)
    together = "".join(words)
    if name in _OF_SHELLS or not words:
        return False
    if any(each in together for each in _ALWAYS):
        return True
    before = words[-2] if len(words) > 1 else ""
    return words[-1] in _LAST and not (
        (words[-1] == "token" and before in _TEXT_TOKENS) or (words[-1] == "key" and before in _TABLE_KEYS)
    )


def masked_words(words: Sequence[str]) -> tuple[str, ...]:
    """A program's arguments as they may be shown."""
    masked = list(words)
    for secret in reversed(find_secrets(words)):
        word = masked[secret.word]
        masked[secret.word] = word[: secret.start] + MASK + word[secret.end :]
    return tuple(masked)


def masked_text(text: str) -> str:
    """A text as it may be shown in which arguments or an address stand."""
    for start, end, _ in reversed(_within(text)):
        text = text[:start] + MASK + text[end:]
    return text


def find_secrets(words: Sequence[str]) -> list[Secret]:
    """What looks like a secret in a program's arguments, in their order."""
    return [
        Secret(word=number, start=start, end=end, name=name)
        for number, word in enumerate(words)
        for start, end, name in _spans(word, words[number - 1] if number else "")
    ]


def secret_values(words: Sequence[str]) -> list[str]:
    """What looks like a secret in a program's arguments, itself."""
    return [words[secret.word][secret.start : secret.end] for secret in find_secrets(words)]


def _spans(word: str, before: str) -> list[tuple[int, int, str]]:
    flag = _FLAG.fullmatch(before)
    if flag is not None and is_secret_name(flag[1]) and word and _FLAG.match(word) is None:
        return [(0, len(word), flag[1])]
    setting = _SETTING.fullmatch(word)
    if setting is not None and is_secret_name(setting[1]):
        return [(*setting.span(2), setting[1].lstrip("-"))]
    return _within(word)


def _within(text: str) -> list[tuple[int, int, str]]:
    """Where secrets stand in a text, none within another."""
    spans: list[tuple[int, int, str]] = []
    for span in sorted([*_named(text), *_known(text)]):
        if spans and span[0] < spans[-1][1]:
            start, end, name = spans.pop()
            span = (start, max(end, span[1]), name or span[2])
        spans.append(span)
    return spans


def _named(text: str) -> Iterator[tuple[int, int, str]]:
    for found in _NAMED.finditer(text):
        name = found["name"]
        # behind a space a value stands for a flag alone: "token y" are two words of a sentence
        if not is_secret_name(name) or (name[0] != "-" and not re.search("[=:]", found[0])):
            continue
        value = (_QUOTED if found["quote"] else _BARE).match(text, found.end())
        if value is not None and value[0]:
            yield *value.span(), name.lstrip("-")


def _known(text: str) -> Iterator[tuple[int, int, str]]:
    for pattern in (SHAPES, _USER):
        yield from ((*found.span(), "") for found in pattern.finditer(text))


def _words_of(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


_LEAST = 6  # characters; what is shorter stands in text for other reasons
# the value goes, its name stays: "api_key=…", "'password': '…'", "Authorization: Bearer …"
_SECRET_ASSIGNED = re.compile(
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
        text = self._secret.sub(lambda found: self._mask(found[0]), text)
        text = SHAPES.sub(lambda found: self._mask(found[0]), text)
        return _SECRET_ASSIGNED.sub(lambda found: found["name"] + self._mask(found["value"]), text)

    def _mask(self, secret: str) -> str:
        self.masked += 1
        # each line of a log has a time: a log keeps its lines
        return MASK + "\n" * secret.count("\n")
