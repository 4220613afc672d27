"""A hint: the cause and the fix of a known error, one line each, in both languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nbdist.text import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nbdist.diagnosis.signatures import Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """``signature`` is the name of the row in the table of signatures."""

    signature: str
    cause_en: str
    fix_en: str
    cause_zh: str
    fix_zh: str

    @classmethod
    def of(
        cls, signature: Signature, values: Mapping[str, str], values_zh: Mapping[str, str] | None = None
    ) -> Hint:
        """The texts of ``signature`` with ``values`` put in (``values_zh`` into the Chinese ones)."""
        # a group that took no part in the match is None
        said = {name: value or "?" for name, value in values.items()}
        said_zh = {name: value or "?" for name, value in (values_zh or values).items()}
        return cls(
            signature=signature.name,
            cause_en=signature.cause.format_map(said),
            fix_en=signature.fix.format_map(said),
            cause_zh=signature.cause_zh.format_map(said_zh),
            fix_zh=signature.fix_zh.format_map(said_zh),
        )

    def known_here(self, en: str, zh: str, fix_en: str = "", fix_zh: str = "") -> Hint:
        """The hint with what is known of this machine behind the cause, and more that helps."""
        return replace(
            self,
            cause_en=f"{self.cause_en}: {en}",
            cause_zh=f"{self.cause_zh}：{zh}",
            fix_en=self.fix_en + fix_en,
            fix_zh=self.fix_zh + fix_zh,
        )

    def text(self, language: str = "en") -> str:
        """Two lines: the cause, the fix."""
        zh = language == "zh"
        cause = say("diagnosis.cause", language, cause=self.cause_zh if zh else self.cause_en)
        return f"{cause}\n{say('diagnosis.fix', language, fix=self.fix_zh if zh else self.fix_en)}"
