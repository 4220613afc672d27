"""A profile of this rank while its program goes on unchanged: a trace by the recorder of its framework.

It makes the calls below torch.profiler, which exports in Python for seconds, and below paddle.profiler, whose
switch breaks a backward pass that has begun. They record all threads.
"""

from __future__ import annotations

import _thread
import json
import os
import sys
import time
from contextlib import suppress
from functools import cache

from nbdist.worker.files import put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

STEPS = "NBDIST_PROFILE"
"""The variable with the steps to record, ``10:13``."""

BY_STEPS = "steps"
"""The name of their profile."""

_MOST = 500  # steps: what reads many small operators at the end holds the interpreter too long
_LOOKS = 0.02  # seconds between two looks at their number

_ended = 0  # steps


class _Torch:
    """Kineto, which records a GPU, too."""

    def __init__(self, torch: Any) -> None:
        if torch.autograd.profiler._is_profiler_enabled:
            raise RuntimeError("busy")
        # else it prints a line at each start and stop
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")
        names, self._calls = torch._C._profiler, torch._C._autograd
        activity, off = names.ProfilerActivity, (False,) * 5
        all_threads = names._ExperimentalConfig(profile_all_threads=True)
        config = names.ProfilerConfig(names.ProfilerState.KINETO, *off, all_threads, "")
        kinds = {activity.CPU, *([activity.CUDA] if torch.cuda.is_initialized() else [])}
        # drop what it prints, within a millisecond, of a thread that has not loaded it
        kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        try:
            self._calls._prepare_profiler(config, kinds)
            self._calls._enable_profiler(config, kinds)
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(null)

    def stop(self) -> None:
        self._result = self._calls._disable_profiler()

    def save(self, path: str) -> None:
        self._result.save(path)


class _Paddle:
    def __init__(self, core: Any) -> None:
        options = core.ProfilerOptions()
        options.trace_switch = 3 if core.is_compiled_with_cuda() else 1
        self._profiler = core._Profiler.create(options, [])
        if self._profiler is None:
            raise RuntimeError("busy")
        self._profiler.prepare()
        self._profiler.start()

    def stop(self) -> None:
        self._result = self._profiler.stop()

    def save(self, path: str) -> None:
        self._result.save(path, "json")


class _Recording:
    """A recording, which begins when it is made. Where that is impossible, its file has the problem: a code,
    or the text of an exception."""

    def __init__(self, directory: str, name: str) -> None:
        self._path = os.path.join(directory, f"profile-{name}.json")
        self._recorder: _Torch | _Paddle | None = None
        self._try(self._begin)

    def stop(self) -> None:
        if self._recorder is not None:
            self._try(self._recorder.stop)

    def save(self) -> None:
        if self._recorder is not None:
            draft = f"{self._path}.{os.getpid()}"
            self._try(self._recorder.save, draft)
            self._try(os.replace, draft, self._path)

    def _begin(self) -> None:
        if (torch := sys.modules.get("torch")) is not None:
            self._recorder = _Torch(torch)
        elif (core := sys.modules.get("paddle.base.core")) is not None:
            self._recorder = _Paddle(core)
        else:
            raise RuntimeError("no-framework")

    def _try(self, call: Callable[..., object], *given: str) -> None:
        try:
            call(*given)
        except Exception as error:  # noqa: BLE001 - private calls of any version of a framework
            self._recorder = None
            with suppress(OSError):
                put(self._path, json.dumps({"problem": str(error) or type(error).__name__}).encode())


def record(directory: str, name: str, seconds: float) -> None:
    """Record for so long, but not too many steps, and write the trace into the rank's directory."""
    recording, end, last = _Recording(directory, name), time.monotonic() + seconds, _ended + _MOST
    while time.monotonic() < end and _ended < last:
        time.sleep(_LOOKS)
    recording.stop()
    recording.save()


_begun: _Recording | None = None


def step_ended(steps: int) -> None:
    """Take the end of a step of the main thread, at which the profile of ``--profile`` begins or ends."""
    global _ended, _begun
    _ended = steps
    if steps == _window()[0]:
        _begun = _Recording(os.environ["NBDIST_RANK_DIR"], BY_STEPS)
    elif steps == _window()[1] and _begun is not None:
        _begun.stop()
        _thread.start_new_thread(_begun.save, ())
        _begun = None


@cache
def _window() -> tuple[int, int]:
    first, _, last = os.environ.get(STEPS, "0:0").partition(":")
    return int(first), int(last)
