"""Secrets: decides alone which values nbdist records, and which parts of arguments and texts it masks.

nbdist records the value of a variable only if its name is known to be harmless: no value is harmless by its
looks. The supervisor needs the arguments, so the run's own directory has them; wherever they leave it, they
are masked. In a program's text nbdist masks a known secret, the shape of one, and a value behind a secret's
name (``is_secret_name``, as for variables and arguments).
"""

from __future__ import annotations

import functools
import hashlib
import html
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

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
# the prefixes of libraries that compute
_FAMILIES = (
    *("BLIS_", "CUBLAS_", "CUDA_", "CUDNN_", "DNNL_", "FLAGS_", "GLOG_", "GLOO_", "GOMP_", "KMP_", "LC_"),
    *("MALLOC_", "MKL_", "NCCL_", "NUMEXPR_", "OMP_", "ONEDNN_", "OPENBLAS_", "PADDLE_", "PYTORCH_"),
    *("TF_CPP_", "TORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "UCX_", "VECLIB_", "XLA_"),
)
# a member of such a family that holds an address, perhaps with a name and a password
_DOORS = frozenset(
    {"account", "addr", "address", "cert", "dsn", "endpoint", "endpoints", "header", "headers", "host"}
    | {"license", "login", "proxy", "sas", "server", "sign", "signing", "uri", "url", "user", "webhook"}
)

# anywhere in a name, whatever separates their letters
_ALWAYS = ("password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey", "credential")
_LAST = frozenset(
    {"ak", "auth", "authorization", "bearer", "cookie", "dsn", "key", "keys", "pass", "passcode", "pat"}
    | {"pin", "pw", "pwd", "sig", "signature", "sk", "token"}
)
# a token of a text, a key of a table
_TEXT_TOKENS = frozenset({"bos", "cls", "end", "eos", "image", "mask", "pad", "sep", "start", "unk"})
_TABLE_KEYS = frozenset(
    {"cache", "column", "dict", "feature", "foreign", "group", "image", "label", "primary", "sort", "target"}
    | {"text"}
)
_OF_SHELLS = frozenset({"PWD", "OLDPWD"})

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_FLAG = re.compile(r"-{1,2}([A-Za-z][\w.\-]*)")
_SETTING = re.compile(r"[-+~]*([\w.\-/@]+)=(.+)", re.DOTALL)
# quotes in a text, in JSON within JSON, and in HTML
_QUOTE = r"(?:\\?['\"]|&quot;|&\#x27;|&\#39;)"
# the begin of a value within a word: 'password=', '"api_key": "', 'X-Api-Key: ', '--token '; only the value
# of a flag follows a space: "token y" are two words of a sentence
_NAMED = re.compile(
    r"(?<![\w.\-])(?:(?P<flag>--?[A-Za-z][\w.\-]{0,100})[ \t]{1,9}(?=[^\s=:\-])"
    rf"|(?P<name>[\w.\-]{{1,100}})(?P<form>{_QUOTE}?[ \t]{{0,9}}[=:：][ \t]{{0,9}})\[?"
    rf"(?:(?i:bearer|basic|token)[ \t]{{1,9}})?)(?P<quote>{_QUOTE})?"
)
# "pass", "secret", "key" and the like within a secret's name, to skip most of a text; a search for a class of
# first letters is fastest
_STEM = re.compile(r"[aAbBcCdDkKpPsStT](?i:ass|ecret|ey|redential|oken|uth|earer|ookie|sn|at|in|w|ig|k)")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
_WORD_END = re.compile(r"[\w.\-]*")
_BARE = re.compile(r"[^\s'\",;&}\])<>，；。、）]+")
_QUOTED = re.compile(rf"(?:(?!&quot;|&#x27;|&#39;|\\['\"])[^'\"\n])+(?={_QUOTE})")
_ROOM = 1000  # characters of a value that decide
# secrets by their shape
SHAPES = re.compile(
    r"\b(?:hf_|ghp_|gho_|ghs_|ghu_|ghr_|github_pat_|glpat-|sk-|[rs]k_live_|[rs]k_test_|whsec_|xox[abpr]-|AKIA|ASIA"
    r"|AIza|ya29\.|dckr_pat_|npm_|pypi-)[A-Za-z0-9_\-.]{12,}"
    r"|\beyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]+"
    r"|(?<=://)[^\s/:@'\"<>]{1,64}:[^\s/@'\"<>]{1,256}(?=@)"
    # one contains neither another key nor a tag of a page
    r"|-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----[^<>-]*(?:-{1,4}[^<>-]+)*-----END [A-Z ]{0,20}PRIVATE KEY-----"
)

_USER = re.compile(r"(?<=://)[^\s/?#'\"<>]{1,1000}(?=@)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """The place of a secret in one of several words, and its name there or none."""

    word: int
    start: int
    end: int
    name: str


def may_be_written(name: str, value: str) -> bool:
    """Return whether a variable is known to be harmless, and its value is no address with a password."""
    known = name in _HARMLESS or name.startswith(_FAMILIES)
    leads = is_secret_name(name) or not _DOORS.isdisjoint(_words_of(name))
    return known and not leads and MASK not in value and masked_text(value) == value


def without_values(variables: Mapping[str, str] | Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the variables, masked unless they are known to be harmless."""
    return {name: value if may_be_written(name, value) else MASK for name, value in dict(variables).items()}


@functools.lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Return whether a flag, a setting or a variable of this name holds a secret."""
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
    """Return a program's arguments with masked secrets."""
    masked = list(words)
    for secret in reversed(find_secrets(words)):
        word = masked[secret.word]
        masked[secret.word] = word[: secret.start] + MASK + word[secret.end :]
    return tuple(masked)


def masked_text(text: str) -> str:
    """Return a text of arguments or an address with masked secrets."""
    for start, end, _ in reversed(_within(text)):
        text = text[:start] + MASK + text[end:]
    return text


def find_secrets(words: Sequence[str]) -> list[Secret]:
    """Return the likely secrets in a program's arguments, in order."""
    return [
        Secret(word=number, start=start, end=end, name=name)
        for number, word in enumerate(words)
        for start, end, name in _spans(word, words[number - 1] if number else "")
    ]


def _spans(word: str, before: str) -> list[tuple[int, int, str]]:
    flag = _FLAG.fullmatch(before)
    if flag is not None and is_secret_name(flag[1]) and word and _FLAG.match(word) is None:
        return [(0, len(word), flag[1])]
    setting = _SETTING.fullmatch(word)
    if setting is not None and is_secret_name(setting[1]):
        return [(*setting.span(2), setting[1].lstrip("-"))]
    return _within(word)


def _within(text: str) -> list[tuple[int, int, str]]:
    """Return the spans of secrets in arguments or an address, none within another."""
    shapes = ((*match.span(), "") for pattern in (SHAPES, _USER) for match in pattern.finditer(text))
    return _apart([*_named(text, lambda _: True), *shapes])


def _apart(spans: Iterable[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    apart: list[tuple[int, int, str]] = []
    for span in sorted(spans):
        if apart and span[0] < apart[-1][1]:
            start, end, name = apart.pop()
            span = (start, max(end, span[1]), name or span[2])
        apart.append(span)
    return apart


_NAME = 100  # characters


@dataclass(frozen=True, slots=True)
class _Value:
    """A value behind a secret's name in a text, its first _ROOM characters. ``form`` parts the two."""

    name: str
    form: str
    quoted: bool
    text: str


def _named(text: str, tells: Callable[[_Value], bool]) -> Iterator[tuple[int, int, str]]:
    """Yield the spans of values behind the names of secrets, if ``tells`` accepts them."""
    behind = 0
    for stem in _STEM.finditer(text):
        if stem.start() < behind:
            continue
        match = _NAMED.match(text, _start(text, stem.start()))
        behind = _end(_WORD_END, text, stem.end()) if match is None else match.end()
        name = "" if match is None else match["flag"] or match["name"]
        if match is None or not is_secret_name(name):
            continue
        form = _QUOTED if match["quote"] and _QUOTED.match(text, behind, behind + _ROOM) else _BARE
        end = _end(form, text, behind, behind + _ROOM)
        value = _Value(
            name=name.lstrip("-"),
            form=match["form"] or " ",
            quoted=form is _QUOTED,
            text=text[behind:end],
        )
        if value.text and tells(value):
            start, behind = behind, _end(form, text, behind)
            yield start, behind, value.name


def _start(text: str, at: int) -> int:
    """Return the begin of the name around ``at``, or of its last _NAME characters."""
    start = at
    while start and text[start - 1] in _LETTERS and at - start < _NAME:
        start -= 1
    return start


def _end(pattern: re.Pattern[str], text: str, start: int, most: int = sys.maxsize) -> int:
    """Return the end of a pattern's match at ``start``, else ``start``."""
    match = pattern.match(text, start, most)
    return start if match is None else match.end()


def _words_of(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


# a constant, a type or a placeholder instead of a value
_NO_VALUE = re.compile(
    r"(?i:none|null|nil|true|false|yes|no|nan|any|bool|bytes|float|int|object|optional|required|str|string)"
    rf"|[*x.…{MASK[0]}]+|\$\w+|[$#]?\{{.*|%\w|%\(.*"
)
_CALL = re.compile(r"[A-Za-z_][\w.]*[(\[]")
_NUMBER = re.compile(r"[-+\d.,:eE]+")
_MEASURE = re.compile(r"[-+]?(?:\d{1,5}|\d*\.\d+(?:[eE][-+]?\d+)?)%?")
# parts of names of layers and files: words and small numbers
_READABLE = re.compile(r"[A-Za-z]*\d{0,4}|\d+")
_BREAKS = re.compile(r"[._\-/+=:~|]+")
# looks random
_DRAWN = re.compile(r"(?=[^\s]*\d)(?=[^\s]*[A-Za-z])[\w\-./+=:~|]{16,}", re.ASCII)


def _is_secret(value: _Value) -> bool:
    """Return whether a value in a program's text or output is a secret, and no expression or number of a
    training: ``password=`` introduces nothing else, ``token=`` also a number of tokens, ``password_rate=`` a
    measure."""
    code = not value.quoted and (_CALL.match(value.text) or _is_named_alike(value.name, value.text))
    if code or _NO_VALUE.fullmatch(value.text):
        return False
    words = _words_of(value.name)
    if any(each in "".join(words) for each in _ALWAYS):
        names_it = "".join(words).endswith(_ALWAYS) or words[-1] in _LAST
        return names_it or not _MEASURE.fullmatch(value.text)
    if value.name.isupper() and "_" in value.name and not value.form.startswith(" "):
        # as in a printed environment
        return len(value.text) >= _LEAST and not _NUMBER.fullmatch(value.text)
    drawn = _DRAWN.fullmatch(value.text) is not None
    return drawn and not all(_READABLE.fullmatch(part) for part in _BREAKS.split(value.text))


def _is_named_alike(name: str, value: str) -> bool:
    """Return whether a value is a variable, as in ``api_key=args.api_key``, ``--password PASSWORD``."""
    words, others = _words_of(name), _words_of(value)
    fewer = min(len(words), len(others))
    return fewer > 0 and re.sub("[._]", "", value).isalpha() and words[-fewer:] == others[-fewer:]


_LEAST = 6  # characters; text has shorter values for other reasons
_DIGEST = 3  # bytes: one of 17 million other words of the same length has the same
_DIGESTS = 64
_DIGESTED = re.compile(r"(\d{1,6}):([0-9a-f]{16}):([0-9a-f]{6})", re.ASCII)


def digests_of(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return a recordable ``length:salt:digest``, with 24 bits of the value, for each secret variable."""
    values = {value for name, value in variables.items() if is_secret_name(name)}
    known = sorted(value for value in values if len(value) >= _LEAST and not re.search(r"\s", value))
    salted = ((value, os.urandom(8).hex()) for value in known[:_DIGESTS])
    return tuple(f"{len(value)}:{salt}:{_digest(value, salt)}" for value, salt in salted)


def _digest(value: str, salt: str) -> str:
    data = value.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=_DIGEST, salt=bytes.fromhex(salt)).hexdigest()


Find = Callable[[str], Iterator[tuple[int, int, str]]]


def _finders(digests: Iterable[str]) -> list[Find]:
    """Return for each length a function that finds the words with a known digest in a text."""
    by_length: dict[int, list[tuple[str, str]]] = {}
    for text in digests:
        if (match := _DIGESTED.fullmatch(text)) is not None:
            by_length.setdefault(int(match[1]), []).append((match[2], match[3]))
    return [_finder(length, pairs) for length, pairs in by_length.items()]


def _finder(length: int, digests: Sequence[tuple[str, str]]) -> Find:
    words = re.compile(rf"(?<![A-Za-z0-9])(?=(\S{{{length}}})(?![A-Za-z0-9]))")

    @functools.lru_cache(maxsize=4096)
    def is_secret(word: str) -> bool:
        return any(_digest(word, salt) == digest for salt, digest in digests)

    return lambda text: ((*word.span(1), "") for word in words.finditer(text) if is_secret(word[1]))


class Recorded(Protocol):
    """The parts of a run's spec that hold its secrets: arguments, and digests of its variables."""

    @property
    def args(self) -> Sequence[str]: ...

    @property
    def digests(self) -> Sequence[str]: ...


class Privacy:
    """A mask for the private parts of texts. ``masked`` counts the secrets."""

    def __init__(
        self,
        *specs: Recorded,
        homes: Iterable[tuple[str, str]] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Mask the secrets of ``specs`` and of the environment; ``homes`` are paths and their short forms."""
        known = os.environ if environ is None else environ
        user = [(str(Path.home()), "~"), (os.path.realpath(Path.home()), "~")]
        self._paths = {path.rstrip("/"): short for path, short in (*user, *homes) if path.strip("/")}
        # the longest first: a home below another one
        longest = sorted(self._paths, key=len, reverse=True)
        self._path = re.compile("|".join(rf"{re.escape(path)}(?![\w.-])" for path in longest) or r"(?!)")
        named = [value for name, value in known.items() if is_secret_name(name)]
        given = [
            spec.args[secret.word][secret.start : secret.end]
            for spec in specs
            for secret in find_secrets(spec.args)
        ]
        long = {value for value in (*named, *given) if len(value) >= _LEAST}
        # a page escapes some characters
        long |= set(map(html.escape, long))
        self._secret = re.compile("|".join(map(re.escape, sorted(long, key=len, reverse=True))) or r"(?!)")
        self._finders = _finders(digest for spec in specs for digest in spec.digests)
        self.masked = 0

    def clean(self, text: str) -> str:
        text = self._path.sub(lambda match: self._paths[match[0]], text)
        text = self._secret.sub(lambda match: self._mask(match[0]), text)
        spans = [*_named(text, _is_secret), *((*match.span(), "") for match in SHAPES.finditer(text))]
        for find in self._finders:
            spans += find(text)
        parts, end = [], 0
        for start, behind, _ in _apart(spans):
            parts += [text[end:start], self._mask(text[start:behind])]
            end = behind
        return "".join([*parts, text[end:]])

    def _mask(self, secret: str) -> str:
        self.masked += 1
        # each line of a log has a time: a log keeps its lines
        return MASK + "\n" * secret.count("\n")
