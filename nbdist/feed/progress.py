"""A run's progress and pace, from the logs and prints of its ranks."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nbdist.feed.ansi import strip_ansi
from nbdist.store import MetricPoint

_WINDOW = 60.0
_SPACING = 0.5  # between two samples of a pace
_SPAN = 2.0  # less time than this yields no pace
QUIET = 10.0  # a pace ends when nothing confirms it for this long and for as long as it was measured


class Pace:
    """The growth of a number over the recent past."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, float]] = deque()

    def note(self, time: float, value: float) -> None:
        samples = self._samples
        if samples and value < samples[-1][1]:
            samples.clear()
        if samples and value == samples[-1][1]:
            return
        if len(samples) > 1 and time - samples[-2][0] < _SPACING:
            samples.pop()
        samples.append((time, value))
        while len(samples) > 2 and time - samples[1][0] >= _WINDOW:
            samples.popleft()

    def rate(self, now: float) -> float | None:
        """Return the growth a second; None while too little is known, or nothing came for long."""
        if len(self._samples) < 2:
            return None
        (begun, low), (last, high) = self._samples[0], self._samples[-1]
        span = last - begun
        if span < _SPAN or now - last > max(QUIET, span):
            return None
        return (high - low) / span

    def remaining(self, rest: float, now: float) -> float | None:
        """Return the seconds until the number has grown by ``rest`` since the last sample."""
        rate = self.rate(now)
        return None if rate is None else left_of(rest / rate, now - self._samples[-1][0])


def left_of(seconds: float, age: float) -> float | None:
    """Return the rest of a time that was printed ``age`` seconds ago; None when it is over and was wrong."""
    left = seconds - max(0.0, age)
    if seconds == 0:
        return 0.0
    return float(round(left)) if left >= 0 else None


_BARS = (
    # " 48%|████▊     | 129/268 [00:16<00:17,  7.9it/s, loss=0.06]": the format of tqdm's bars
    re.compile(
        r"\d{1,3}%\|[^|]*\|\s*(?P<done>[\d.]+)(?P<done_in>[kMGT]?)/(?P<total>[\d.]+)(?P<total_in>[kMGT]?)"
        r"\s*\[[\d:]+<(?P<left>[\d:]+|\?),\s*(?P<rate>[\d.]+|\?)\s*(?P<rate_in>[kMGT]?)(?P<unit>[^\s,\]]+)"
    ),
    # "Epoch [1/2]: [10/20]  50%|█████     , loss=0.06 [00:01<00:01]": ignite's
    re.compile(r"\[(?P<done>\d+)/(?P<total>\d+)\]\s+\d{1,3}%\|[^\[]*\[[\d:]+<(?P<left>[\d:]+|\?)\]"),
)
# "Epoch 0/4 ━━━━━━━ 20/20 0:00:01 • 0:00:05 25.3it/s": Lightning's with rich
_RICH = re.compile(
    r"[━╸╺][━╸╺ ]*\s(?P<done>\d+)/(?P<total>\d+)\s+[\d:]+ • (?P<left>[\d:]+|[-:]+)\s+(?P<rate>[\d.]+)it/s"
)
# "400/938 [=====>....]", "400/938 ━━━━━━": Keras, which has the words of a line
_KERAS = re.compile(r"^\s*(?P<done>\d+)/(?P<total>\d+)\s+(?:\[[=>.]|━|╸)")
_COUNT = re.compile(
    r"\b(?:step|batch|iter(?:ation)?)(?:s|es)?\b[\s:=#\[(]*(?P<done>\d+)\s*(?:/|of)\s*(?P<total>\d+)",
    re.IGNORECASE,
)
# bars before training begins, or over a network's files
_PREPARES = re.compile(
    r"\W*(?:map|filter|flatten|tokeniz|running tokenizer|generating|casting|sav(?:e|ing)|creating|sorting"
    r"|packing|grouping|truncating|load|download|fetch|extract|resolv|import|convert|cach|preprocess|prepar"
    r"|materializ)",
    re.IGNORECASE,
)
# bytes or examples: a download, or ``datasets.map``, is not the run
_NO_STEPS = re.compile(r".*B/s|examples/s|s/.*B")
# the name of a loop over a validation set; "val loss 0.25" is a number of the training's
_EVALUATES = re.compile(
    r"\b(?:val|valid|validat\w+|eval|evaluat\w+|test|testing|sanity|predict\w*)\b"
    r"(?![\s\w]*[:=]?\s*\d*\.\d)",
    re.IGNORECASE,
)
_TRAINS = re.compile(r"\btrain", re.IGNORECASE)
_STEP_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(us|µs|ms|s)/(?:step|batch|it)\b")
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A count of steps on the screen: ``about`` stands in front of it, ``rate`` and ``left`` are its own
    figures. ``drawn``: it is a bar. ``to_last``: its epochs are counted from 0 to the last of them."""

    about: str
    done: float
    total: float
    rate: float | None = None
    left: float | None = None
    drawn: bool = True
    to_last: bool = False

    @property
    def fraction(self) -> float:
        return min(1.0, self.done / self.total)

    @property
    def text(self) -> str:
        return f"step {self.done:.0f}/{self.total:.0f}"

    @property
    def evaluates(self) -> bool:
        """Return whether it counts a validation, a test, or a trial of the program before training."""
        return _EVALUATES.search(self.about) is not None and _TRAINS.search(self.about) is None


def read_bar(line: str) -> Bar | None:
    """Return the count in a line; None for none, and for one that only prepares the run."""
    searched = (pattern.search(line) for pattern in (*_BARS, _RICH, _KERAS, _COUNT))
    match = next(filter(None, searched), None)
    if match is None:
        return None
    words = match.groupdict("")
    drawn, unit = match.re not in (_KERAS, _COUNT), words.get("unit", "")
    rate = _number(words, "rate") or None
    if rate is not None and unit.startswith("s/"):
        rate = 1 / rate
    bar = Bar(
        about=line[: match.start()],
        done=_number(words, "done"),
        total=_number(words, "total"),
        rate=rate if drawn else _rate_behind(line, match.end()),
        left=_clock_seconds(words.get("left", "")),
        drawn=drawn,
        to_last=match.re is _RICH,
    )
    prepares = drawn and (_PREPARES.match(bar.about) or _NO_STEPS.fullmatch(unit))
    return bar if bar.total > 0 and not prepares else None


def _rate_behind(line: str, end: int) -> float | None:
    took = _STEP_TIME.search(line, end)
    seconds = float(took[1]) * _SECONDS[took[2]] if took is not None else 0.0
    return 1 / seconds if seconds else None


def _number(words: Mapping[str, str], name: str) -> float:
    try:
        return float(words[name]) * _SCALES[words.get(f"{name}_in", "")]
    except (KeyError, ValueError):  # "?", or dots that only look like a number
        return 0.0


def _clock_seconds(text: str) -> float | None:
    """Parse ``00:17``, ``1:02:03``; None for ``?`` and ``-:--:--``."""
    try:
        parts = [int(part) for part in text.split(":")]
    except ValueError:
        return None
    return float(sum(part * 60**power for power, part in enumerate(reversed(parts))))


LINES = 6  # the last of new lines: a bar, the bar around it, and some words between them
_SAMPLES = 100
_EPOCH = re.compile(r"\bepochs?\b[\s:=#\[(]*(\d+)\s*(?:/|of)\s*(\d+)", re.IGNORECASE)
_EPOCH_ALONE = re.compile(r"\bepoch[\s:=#\[(]*(\d+)\b(?!\s*(?:/|of))", re.IGNORECASE)
_EPOCHS = re.compile(r"\bepochs?\W*$", re.IGNORECASE)
_FIGURE = re.compile(r"\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A ``fraction`` in 0…1, and ``remaining`` seconds, None while they are unknown."""

    fraction: float
    remaining: float | None
    text: str


def furthest_behind(progresses: Iterable[Progress | None]) -> Progress | None:
    """Return the least progress; a run is as far as its slowest rank."""
    known = [progress for progress in progresses if progress is not None]
    return min(known, key=lambda progress: progress.fraction, default=None)


class RankProgress:
    """One rank's progress: from logged steps, else from progress bars. Times are Unix seconds, in order."""

    def __init__(self) -> None:
        self._printed = _Printed()
        self._steps = Pace()
        self._done = Pace()
        self._first: int | None = None
        self._span = (0.0, 0.0)  # when the first and the last step were logged
        self._step = 0
        self._total = 0

    def logged(self, points: Sequence[MetricPoint]) -> None:
        """Take new points of ``nbdist.log``. One point may hold the number of all steps."""
        stepped = [point for point in points if point.step is not None]
        if not stepped:
            return
        if self._first is None:
            self._first = stepped[0].step
            self._span = (stepped[0].time, 0.0)
        self._span = (self._span[0], stepped[-1].time)
        self._total = next((point.total for point in reversed(points) if point.total), self._total)
        # some points are enough for the pace; the last must be among them
        for point in stepped[:: -(len(stepped) // _SAMPLES + 1)][::-1]:
            # another series may count epochs
            self._step = max(self._step, point.step or 0)
            self._steps.note(point.time, self._step)

    def printed(self, lines: Sequence[str], partial: str, time: float) -> None:
        """Take what is new in the log, of which only the end is read."""
        counts = [line for line in (*lines[-LINES:], *partial.split("\n")) if "/" in line or " of " in line]
        seen = [self._printed.see(line, time) for line in counts]
        if any(seen) and self._printed.fraction is not None:
            self._done.note(time, self._printed.fraction)

    def progress(self, now: float) -> Progress | None:
        """Return the rank's progress; None while it showed none."""
        if self._total:
            # counted from 0, one more step is done than the last number
            done = min(self._step + (self._first == 0), self._total)
            text = f"step {done}/{self._total}"
            remaining = self._steps.remaining(self._total - done, now)
            return Progress(fraction=done / self._total, remaining=remaining, text=text)
        fraction = self._printed.fraction
        if fraction is None:
            return None
        remaining = self._printed.remaining(now)
        if remaining is None and not self._printed.starts_again:
            remaining = self._done.remaining(1.0 - fraction, now)
        return Progress(fraction=fraction, remaining=remaining, text=self._printed.text)

    def rate(self, now: float) -> float | None:
        """Return the recent steps a second."""
        logged = self._steps.rate(now)
        return self._printed.rate(now) if logged is None and not self._step else logged

    @property
    def mean_rate(self) -> float | None:
        """Return the steps a second from the first step to the last; without logged ones, by the last bar."""
        seconds = self._span[1] - self._span[0]
        if self._first is None:
            return self._printed.last_rate
        return (self._step - self._first) / seconds if seconds > 0 and self._step > self._first else None


class _Printed:
    """The progress bars on a rank's screen, read line by line."""

    def __init__(self) -> None:
        self._epochs: tuple[int, int] | None = None  # done, of how many
        self._shown = ""  # the epoch as the program calls it
        self._named = ""  # an epoch whose total is not known
        self._outer: Bar | None = None  # a bar over epochs
        self._steps: Bar | None = None  # of the epoch, or of all
        self._inner: Bar | None = None  # a loop within them
        self._evaluates = False  # these are an evaluation's, and nothing else was seen
        self._from_zero = False
        self._to_last = False  # epochs are counted from 0 to the last of them
        self._after: bool | None = None  # epochs are named at their end; None: not known yet
        self._guessed_end = False
        self._time = 0.0
        self.starts_again = False
        """Whether the bar has begun anew, with an unknown number of repeats."""

    @property
    def fraction(self) -> float | None:
        inner = self._steps.fraction if self._steps is not None else None
        if self._epochs is None:
            return inner
        done, total = self._epochs
        return min(1.0, (done + (inner or 0.0)) / total)

    @property
    def text(self) -> str:
        if self._epochs is not None:
            return self._shown
        return f"{self._named}{self._steps.text}" if self._steps is not None else ""

    def remaining(self, now: float) -> float | None:
        """Return the seconds left by the bar's own figures."""
        steps = self._steps
        if steps is None:
            outer = self._outer
            return None if outer is None or outer.left is None else left_of(outer.left, now - self._time)
        if steps.left is None or self.starts_again:
            return None
        later = 0.0
        if self._epochs is not None:
            epochs = max(0, self._epochs[1] - self._epochs[0] - 1)
            if epochs and not steps.rate:
                return None
            later = epochs * steps.total / steps.rate if steps.rate else 0.0
        return left_of(steps.left + later, now - self._time)

    @property
    def last_rate(self) -> float | None:
        return (self._steps.rate or None) if self._steps is not None else None

    def rate(self, now: float) -> float | None:
        rate = self.last_rate
        return rate if rate and now - self._time <= max(QUIET, 5 / rate) else None

    def see(self, line: str, time: float) -> bool:
        """Read one line; return whether it showed progress."""
        line = strip_ansi(line)
        bar = read_bar(line)
        before = bar.about if bar is not None and bar.drawn else line
        if bar is not None and not self._counts(bar):
            return False
        epoch = _EPOCH.search(before)
        if epoch is not None:
            if bar is not None and bar.to_last:
                self._from_zero = self._to_last = True
            self._see_epoch(epoch, bar, before)
        elif bar is None:
            return False
        elif bar.drawn and _EPOCHS.search(before):
            self._see_outer(bar)
        else:
            self._see_steps(bar, _EPOCH_ALONE.search(before) if bar.drawn else None)
        self._time = time
        return True

    def _counts(self, bar: Bar) -> bool:
        """Return whether a bar is about the run, and not about an evaluation within it."""
        if bar.evaluates:
            self._evaluates = self._evaluates or (self._steps is None and self._epochs is None)
            return self._evaluates
        if self._evaluates:
            self._evaluates, self._steps = False, None
        return True

    def _see_epoch(self, epoch: re.Match[str], steps: Bar | None, line: str) -> None:
        number, total = int(epoch[1]), max(1, int(epoch[2]))
        self._from_zero = self._from_zero or number == 0
        self._to_last = self._to_last or (self._from_zero and number >= total)
        total += self._to_last
        done = number if self._from_zero else number - 1
        self.starts_again = False
        if steps is not None:
            self._steps = steps
        else:
            if self._after is None and self._steps is not None:
                self._after = True
            self._guessed_end = self._after is None and bool(_FIGURE.search(line, epoch.end()))
            if self._after or self._guessed_end:
                done += 1
            self._steps = None
        self._epochs = (min(done, total), total)
        self._shown = f"epoch {number}/{epoch[2]}"

    def _see_outer(self, epochs: Bar) -> None:
        done, total = int(epochs.done), max(1, int(epochs.total))
        if self._epochs != (done, total):
            self._steps = None
        self._outer, self._epochs = epochs, (done, total)
        self._shown = f"epoch {min(done + 1, total)}/{total}"
        self.starts_again = False

    def _see_steps(self, steps: Bar, epoch: re.Match[str] | None) -> None:
        if self._steps is not None and self._is_inner(self._steps, steps):
            return
        before, self._steps = self._steps, steps
        if epoch is not None:
            self._named, self.starts_again = f"epoch {epoch[1]}, ", True
        elif self._epochs is None:
            if before is not None and steps.done < before.done:
                self.starts_again = True
        elif self._outer is None and self._after is None:
            # steps that follow the name of an epoch are its own
            self._after = False
            if self._guessed_end:
                self._epochs = (self._epochs[0] - 1, self._epochs[1])

    def _is_inner(self, outer: Bar, steps: Bar) -> bool:
        """Return whether these are the steps of a loop within those, or of one after them in an epoch."""
        if steps.total == outer.total:
            self._inner = None
            return False
        if outer.done >= outer.total:
            return self._epochs is not None
        again = self._inner is not None and steps.done < self._inner.done
        self._inner = steps
        # a loop that begins again while the outer one stands still has taken its place
        self.starts_again = self.starts_again or (again and self._epochs is None)
        return steps.total < outer.total and not again
