"""What a check has to say of a program before it is started."""

from __future__ import annotations

from collections.abc import Mapping
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
        """One line; ``script`` is the program's name where it is a file and no cell."""
        chinese = language == "zh"
        what = self.rule.what_zh if chinese else self.rule.what
        instead = self.rule.instead_zh if chinese else self.rule.instead
        parts = [where(self.line, script, language), what.format_map(self.values)]
        said = " ".join(part for part in parts if part)
        fix = instead.format_map(self.values)
        return f"{said}{'：' if chinese else ': '}{fix}" if fix else said


@cache
def rules() -> dict[str, Rule]:
    """All rules (``rules.toml``), by their names."""
    return {name: Rule(name=name, **texts) for name, texts in read_table(__file__, "rules").items()}


def found(rule: str, line: int | None = None, certain: bool = False, /, **values: object) -> Finding:
    """The rule of this name applies at ``line``; ``values`` are those of its texts."""
    texts = {name: str(value) for name, value in values.items()}
    return Finding(rule=rules()[rule], line=line, certain=certain, values=texts)


def where(line: int | None, script: str = "", language: str = "en") -> str:
    """``line 3 of the cell``, or of ``train.py``; nothing without a line."""
    if line is None:
        return ""
    if language == "zh":
        return f"{script} 第 {line} 行" if script else f"单元第 {line} 行"
    return f"line {line} of {script or 'the cell'}"
