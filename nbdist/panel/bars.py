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
# "Epoch 0/4 ━━━━━━━ 20/20 0:00:01 • 0:00:05 25.3it/s": Lightning's with rich
_RICH = re.compile(r"[━╸╺][━╸╺ ]*\s(\d+)/(\d+)\s+[\d:]+ • ([\d:]+|[-:]+)\s+([\d.]+)it/s")
# "Epoch [1/2]: [10/20]  50%|█████     , loss=0.06 [00:01<00:01]": ignite's
_IGNITE = re.compile(r"\[(\d+)/(\d+)\]\s+\d{1,3}%\|[^\[]*\[[\d:]+<([\d:]+|\?)\]")
# what a bar counts before training begins, or the files of a network
_PREPARES = re.compile(
    r"\W*(?:map|filter|flatten|tokeniz|running tokenizer|generating|casting|sav(?:e|ing)|creating|sorting"
    r"|packing|grouping|truncating|load|download|fetch|extract|resolv|import|convert|cach|preprocess|prepar"
    r"|materializ)",
    re.IGNORECASE,
)
# what a loop over a validation set is called; "val loss 0.25" is a number of the training's
_EVALUATES = re.compile(
    r"\b(?:val|valid|validat\w+|eval|evaluat\w+|test|testing|sanity|predict\w*)\b"
    r"(?![\s\w]*[:=]?\s*\d*\.\d)",
    re.IGNORECASE,
)
_TRAINS = re.compile(r"\btrain", re.IGNORECASE)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One state of a count. ``about`` is what stands in front of it, ``drawn`` whether it is a bar, and
    ``to_last`` whether its epochs are counted from 0 to the last of them."""

    about: str
    steps: Steps
    drawn: bool = True
    to_last: bool = False

    @property
    def evaluates(self) -> bool:
        """Whether it counts a validation, a test, or what comes before training to try the program."""
        return _EVALUATES.search(self.about) is not None and _TRAINS.search(self.about) is None


def read_bar(line: str) -> Bar | None:
    """The count in a line; None for none, and for one of what only prepares the run."""
    if (found := BAR.search(line)) is not None:
        steps = _of_tqdm(found)
    elif (found := _RICH.search(line)) is not None:
        steps = _of_steps(found, rate=_number(found[4]) or None)
    elif (found := _IGNITE.search(line)) is not None:
        steps = _of_steps(found)
    else:
        return _counted(line)
    about = line[: found.start()]
    if steps is None or _PREPARES.match(about):
        return None
    return Bar(about=about, steps=steps, to_last=found.re is _RICH)


def _of_steps(bar: re.Match[str], rate: float | None = None) -> Steps | None:
    done, total = int(bar[1]), int(bar[2])
    return Steps(done=done, total=total, rate=rate, left=_clock_seconds(bar[3])) if total else None


def _of_tqdm(bar: re.Match[str]) -> Steps | None:
    """What a bar says; None for one that counts bytes or examples: a download, or ``datasets.map``, is not
    the run."""
    done, done_scale, total, total_scale, left, rate, rate_scale, unit = bar.groups()
    if unit.endswith("B/s") or unit == "examples/s" or (unit.startswith("s/") and unit.endswith("B")):
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


def _counted(line: str) -> Bar | None:
    match = _COUNT.search(line)
    if match is None:
        return None
    done, total = (int(group) for group in islice(filter(None, match.groups()), 2))
    if total <= 0:
        return None
    took = _STEP_TIME.search(line, match.end())
    seconds = _number(took[1]) * _SECONDS[took[2]] if took is not None else 0.0
    steps = Steps(done=done, total=total, rate=1 / seconds if seconds else None)
    return Bar(about=line[: match.start()], steps=steps, drawn=False)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:  # "?", or dots that only look like a number
        return 0.0


def _clock_seconds(text: str) -> float | None:
    """``00:17``, ``1:02:03``; None for ``?`` and ``-:--:--``."""
    try:
        parts = [int(part) for part in text.split(":")]
    except ValueError:
        return None
    return float(sum(part * 60**power for power, part in enumerate(reversed(parts))))
