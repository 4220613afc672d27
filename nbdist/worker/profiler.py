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

_MOST = 300  # steps: what reads many small operators at the end holds the interpreter too long
_LOOKS = 0.02  # seconds between two looks at their number

_ended = 0  # steps
_owner = 0  # the id of the optimizer that counts


Recorder = tuple["Callable[[], Any]", tuple[str, ...]]
"""What stops it, and returns the trace; and more arguments of the trace's ``save``."""


def _start_torch(torch: Any) -> Recorder:
    """Start kineto, which records a GPU, too."""
    if torch.autograd.profiler._is_profiler_enabled:
        raise RuntimeError("busy")
    # else it prints a line at each start and stop
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    names, calls = torch._C._profiler, torch._C._autograd
    all_threads = names._ExperimentalConfig(profile_all_threads=True)
    config = names.ProfilerConfig(names.ProfilerState.KINETO, *(False,) * 5, all_threads, "")
    kinds = {names.ProfilerActivity.CPU}
    if torch.cuda.is_initialized():
        kinds.add(names.ProfilerActivity.CUDA)
    # drop what it prints, within a millisecond, of a thread that has not loaded it
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        calls._prepare_profiler(config, kinds)
        calls._enable_profiler(config, kinds)
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)
    return calls._disable_profiler, ()


def _start_paddle(core: Any) -> Recorder:
    options = core.ProfilerOptions()
    options.trace_switch = 3 if core.is_compiled_with_cuda() else 1
    if (profiler := core._Profiler.create(options, [])) is None:
        raise RuntimeError("busy")
    profiler.prepare()
    profiler.start()
    return profiler.stop, ("json",)


class _Recording:
    """A recording, which begins when it is made. Where that is impossible, its file has the problem: a code,
    or the text of an exception."""

    def __init__(self, directory: str, name: str) -> None:
        self._path = os.path.join(directory, f"answer-{name}")
        self._recorder: Recorder | None = None
        self._trace: Any = None
        self._try(self._start)

    def stop(self) -> None:
        self._try(self._stop)

    def save(self) -> None:
        self._try(self._save)

    def _start(self) -> None:
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "profiler"):  # else it is being imported
            self._recorder = _start_torch(torch)
        elif (core := sys.modules.get("paddle.base.core")) is not None:
            self._recorder = _start_paddle(core)
        else:
            raise RuntimeError("no-framework")

    def _stop(self) -> None:
        if self._recorder is not None:
            self._trace = self._recorder[0]()

    def _save(self) -> None:
        if self._recorder is not None:
            self._trace.save(draft := f"{self._path}.{os.getpid()}", *self._recorder[1])
            os.chmod(draft, 0o600)
            os.replace(draft, self._path)

    def _try(self, call: Callable[[], object]) -> None:
        try:
            call()
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


def step_ended(optimizer: int) -> None:
    """Take the end of a step of the main thread, at which the profile of ``--profile`` begins or ends. With
    several optimizers those of the first count."""
    global _ended, _owner, _begun
    _owner = _owner or optimizer
    if optimizer != _owner:
        return
    _ended += 1
    if _ended == _window()[0]:
        _begun = _Recording(os.environ["NBDIST_RANK_DIR"], BY_STEPS)
    elif _ended == _window()[1] and _begun is not None:
        _begun.stop()
        _thread.start_new_thread(_begun.save, ())
        _begun = None


@cache
def _window() -> tuple[int, int]:
    first, _, last = os.environ.get(STEPS, "0:0").partition(":")
    return int(first), int(last)
