"""The situation of a program, the findings of checks, and the rules (``rules.toml``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from nbdist.tables import read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Something that is known to go wrong. ``{…}`` in the texts are values of a Finding.

    ``what`` says what is there, ``instead`` what to type; each in both languages.
    """

    name: str
    what: str
    instead: str
    what_zh: str
    instead_zh: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule that applies. ``line`` is the program's, None where it is about the machine.

    ``certain``: no rank can get past that line.
    """

    rule: Rule
    line: int | None = None
    certain: bool = False
    values: Mapping[str, str] = field(default_factory=dict)

    def text(self, language: str = "en", script: str = "") -> str:
        """Return one line; ``script`` is the program's name where it is a file and no cell."""
        rule, chinese = self.rule, language == "zh"
        what, instead = (rule.what_zh, rule.instead_zh) if chinese else (rule.what, rule.instead)
        text = f"{where(self.line, script, language)} {what.format_map(self.values)}".strip()
        return f"{text}{'：' if chinese else ': '}{instead.format_map(self.values)}"


@cache
def rules() -> dict[str, Rule]:
    """Return all rules (``rules.toml``), by their names."""
    return {name: Rule(name=name, **texts) for name, texts in read_table(__file__, "rules").items()}


@cache
def words(name: str) -> tuple[str, ...]:
    """Return a list of names in ``words.toml``."""
    return tuple(read_table(__file__, "words")[name])


@cache
def imports(framework: str) -> dict[str, str]:
    """Return what programs of a framework usually write for a name."""
    table = read_table(__file__, "words")["imports"]
    return {**{name: f"import {name}" for name in table["modules"]}, **table["any"], **table[framework]}


def found(rule: str, line: int | None = None, certain: bool = False, /, **values: object) -> Finding:
    """Return the finding of a rule at ``line``; ``values`` are those of its texts."""
    texts = {name: str(value) for name, value in values.items()}
    return Finding(rule=rules()[rule], line=line, certain=certain, values=texts)


def where(line: int | None, script: str = "", language: str = "en") -> str:
    """Return ``line 3 of the cell``, or of ``train.py``; nothing without a line."""
    if line is None:
        return ""
    if language == "zh":
        return f"{script} 第 {line} 行" if script else f"单元第 {line} 行"
    return f"line {line} of {script or 'the cell'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """An installed framework. ``cuda`` is the version it was built for; empty for a CPU build."""

    version: str
    cuda: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """Memory of a GPU, in bytes, that is taken already; ``holder`` says who, as far as is known."""

    gpu: int
    memory: int
    total: int
    holder: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The source of a name in the notebook.

    ``kind`` is "import", "definition", "data" or "ranks" (an earlier cell of ranks, which have ended).
    ``code`` is what to write into the cell to have it there, where that is short; ``cell`` the number
    in the brackets before the cell that made it, None where that is not known.
    """

    kind: str
    code: str = ""
    cell: int | None = None
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """``gpus`` are the physical ids of the ranks' GPUs, empty for CPU ranks; ``machine_gpus`` tells how
    many this machine has. ``environment`` is what the ranks inherit, ``args`` what they get behind the
    program's name, ``given`` the names that they get from the notebook; ``shared_memory`` the size of
    /dev/shm in bytes. The callables look only when a check calls them: whether a module can be imported,
    which version of a distribution is installed, how a framework was built, where the notebook has a name.
    """

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
