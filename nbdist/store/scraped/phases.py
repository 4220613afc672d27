"""Whose numbers they are: training's, or those of a validation, a test or an evaluation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from nbdist.store.scraped.names import NAMES, is_metric

PHASES = {
    "val": "val",
    "valid": "val",
    "validation": "val",
    "validating": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
    "eval": "eval",
    "evaluation": "eval",
    "evaluating": "eval",
}
PHASE = re.compile(r"(?<![\w.-])(" + "|".join(PHASES) + r")(?![\w.-]*\w*[\w./])")


def phase_before(text: str) -> str:
    found = PHASE.search(text)
    return PHASES[found[1]] if found is not None else ""


@lru_cache(NAMES)
def phase_of(tag: str) -> str:
    return next((PHASES[part] for part in re.split(r"[_/]", tag) if part in PHASES), "")


def in_phase(values: Mapping[str, float], phase: str) -> Mapping[str, float]:
    """Whose numbers they are goes into the tags of the metrics that do not say so."""
    if not phase:
        return values
    return {
        tag if phase_of(tag) or not is_metric(tag) else f"{phase}_{tag}": value
        for tag, value in values.items()
    }
