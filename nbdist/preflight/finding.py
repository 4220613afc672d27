"""The situation of a program, the findings of checks, and the rules (``rules.toml``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from nbdist.tables import read_table
from nbdist.text import fill


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A known mistake: ``what`` is there, and what to type ``instead``. ``{…}`` are values of a Finding."""

    name: str
    what: str
    instead: str
    what_zh: str
    instead_zh: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule that applies at a line, or to the machine (None). ``certain``: every rank fails there."""

    rule: Rule
    line: int | None = None
    certain: bool = False
    values: Mapping[str, str] = field(default_factory=dict)

    def text(self, language: str = "en", script: str = "") -> str:
        """Return one line; ``script`` is the name of a program that is a file and no cell."""
        rule, chinese = self.rule, language == "zh"
        what, instead = (rule.what_zh, rule.instead_zh) if chinese else (rule.what, rule.instead)
        text = f"{{place}} {what}{'：' if chinese else ': '}{instead}"
        return fill(text, {**self.values, "place": where(self.line, script, language)}, language).strip()


@cache
def rules() -> dict[str, Rule]:
    return {name: Rule(name=name, **texts) for name, texts in read_table(__file__, "rules").items()}


@cache
def words(name: str) -> tuple[str, ...]:
    """Return a list of names in ``words.toml``."""
    return tuple(read_table(__file__, "words")[name])


@cache
def imports(framework: str) -> dict[str, str]:
    """Return the usual import of each name in programs of a framework."""
    table = read_table(__file__, "words")["imports"]
    return {**{name: f"import {name}" for name in table["modules"]}, **table["any"], **table[framework]}


def finding_of(rule: str, line: int | None = None, certain: bool = False, /, **values: object) -> Finding:
    """Return the finding of a rule at ``line``; ``values`` are those of its texts."""
    texts = {name: str(value) for name, value in values.items()}
    return Finding(rule=rules()[rule], line=line, certain=certain, values=texts)


def where(line: int | None, script: str = "", language: str = "en") -> str:
    """Return ``line 3 of the cell``, or of ``train.py``; empty without a line."""
    if line is None:
        return ""
    if language == "zh":
        return f"{script} 第 {line} 行" if script else f"单元格第 {line} 行"
    return f"line {line} of {script or 'the cell'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """An installed framework. ``cuda`` is its CUDA version; empty for a CPU build."""

    version: str
    cuda: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Memory of a GPU already taken, in bytes; ``holder`` names the process, if known."""

    gpu: int
    memory: int
    total: int
    holder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The source of a name in the notebook.

    ``kind`` is "import", "definition", "data" or "ranks" (an earlier cell of ranks, which have ended).
    ``code`` is a short statement that makes it in the cell; ``cell`` the number in the brackets of the cell
    that made it, None if unknown.
    """

    kind: str
    code: str = ""
    cell: int | None = None
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A planned run. ``gpus`` are physical ids of the ranks' GPUs, empty for CPU ranks; ``environment`` is
    what the ranks inherit, ``args`` the program's arguments, ``given`` names from the notebook,
    ``shared_memory`` the bytes of /dev/shm. Checks call the callables when needed: the machine's number of
    GPUs, whether a module imports, a distribution's version, a framework's build, a name's origin."""

    world_size: int = 2
    gpus: tuple[int, ...] = ()
    machine_gpus: Callable[[], int] = lambda: 0
    args: tuple[str, ...] = ()
    given: frozenset[str] = frozenset()
    environment: Mapping[str, str] = field(default_factory=dict)
    shared_memory: int | None = None
    driver_cuda: str = ""
    held: tuple[Holding, ...] = ()
    installed: Callable[[str], bool] = lambda _: True
    version: Callable[[str], str | None] = lambda _: None
    build: Callable[[str], Build | None] = lambda _: None
    origin: Callable[[str], Origin | None] = lambda _: None
