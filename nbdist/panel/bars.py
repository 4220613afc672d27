"""One line of a progress bar, or of a count of steps: what it says of where it stands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice

# " 48%|████▊     | 129/268 [00:16<00:17,  7.9it/s, loss=0.06]": the format of tqdm's bars
BAR = re.compile(
    r"\d{1,3}%\|[^|]*\|\s*([\d.]+)([kMGT]?)/([\d.]+)([kMGT]?)"
    r"\s*\[[\d:]+<([\d:]+|\?),\s*([\d.]+|\?)\s*([kMGT]?)([^\s,\]]+)"
)
_COUNT = re.compile(
    r"\b(?:step|batch|iter(?:ation)?)(?:s|es)?\b[\s:=#\[(]*(\d+)\s*(?:/|of)\s*(\d+)"
    # "400/938 [=====>....]", "400/938 ━━━━━━": the bars of Keras
    r"|^\s*(\d+)/(\d+)\s+(?:\[[=>.]|━|╸)",
    re.IGNORECASE,
)
_STEP_TIME = re.compile(r"([\d.]+)\s*(us|µs|ms|s)/(?:step|batch|it)\b")
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A count of steps on the screen, with what its own bar says of the rate and of the time left."""

    done: float
    total: float
    rate: float | None = None
    left: float | None = None

    @property
    def fraction(self) -> float:
        return min(1.0, self.done / self.total)

    @property
    def text(self) -> str:
        return f"step {self.done:.0f}/{self.total:.0f}"


def steps_of(bar: re.Match[str]) -> Steps | None:
    """What a bar says; None for one that counts bytes: a download is not the run."""
    done, done_scale, total, total_scale, left, rate, rate_scale, unit = bar.groups()
    if unit.endswith("B/s") or (unit.startswith("s/") and unit.endswith("B")):
        return None
    of = _number(total) * _SCALES[total_scale]
    if of <= 0:
        return None
    pace = _number(rate) * _SCALES[rate_scale]
    if unit.startswith("s/"):
        pace = 1 / pace if pace else 0.0
    return Steps(
        done=_number(done) * _SCALES[done_scale], total=of, rate=pace or None, left=_clock_seconds(left)
    )


def counted(line: str) -> Steps | None:
    match = _COUNT.search(line)
    if match is None:
        return None
    done, total = (int(group) for group in islice(filter(None, match.groups()), 2))
    if total <= 0:
        return None
    took = _STEP_TIME.search(line, match.end())
    seconds = _number(took[1]) * _SECONDS[took[2]] if took is not None else 0.0
    return Steps(done=done, total=total, rate=1 / seconds if seconds else None)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # "?", or dots that only look like a number
        return 0.0


def _clock_seconds(text: str) -> float | None:
    """``00:17``, ``1:02:03``; None for ``?``."""
    try:
        parts = [int(part) for part in text.split(":")]
    except ValueError:
        return None
    return float(sum(part * 60**power for power, part in enumerate(reversed(parts))))
