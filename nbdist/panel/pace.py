"""How fast a number grows."""

from __future__ import annotations

from collections import deque

_WINDOW = 60.0
_SPACING = 0.5  # between two samples of a pace
_SPAN = 2.0  # what is measured over less than this says little
QUIET = 10.0  # a pace that nothing confirms for this long, and for as long as it was measured, is over


class Pace:
    """How fast a number grows, over the recent past."""

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
        """A second's growth; None while too little is known, or when nothing has come for long."""
        if len(self._samples) < 2:
            return None
        (begun, low), (last, high) = self._samples[0], self._samples[-1]
        span = last - begun
        if span < _SPAN or now - last > max(QUIET, span):
            return None
        return (high - low) / span

    def remaining(self, rest: float, now: float) -> float | None:
        """Seconds until the number has grown by ``rest`` more than it had at the last sample."""
        rate = self.rate(now)
        return None if rate is None else left_of(rest / rate, now - self._samples[-1][0])


def left_of(seconds: float, age: float) -> float | None:
    """Of a time that was told ``age`` seconds ago, what is left; None when it is over and was wrong."""
    left = seconds - max(0.0, age)
    if seconds == 0:
        return 0.0
    return float(round(left)) if left >= 0 else None
