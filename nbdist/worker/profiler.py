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

from nbdist.worker.files import put

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

STEPS = "NBDIST_PROFILE"
"""The variable with the steps to record, ``10:13``."""

BY_STEPS = "steps"
"""The name of their profile."""

_MOST = 300  # steps: what reads many small operators at the end holds the interpreter too long
_LOOKS = 0.02  # seconds between two looks at their number

_ended = 0  # steps
_owner = 0  # the id of the optimizer that counts
_window = [0, 0]  # the first and the last step of ``--profile``
_begun: Iterator[None] | None = None


def _start_torch(torch: Any) -> Callable[[], Any]:
    """Start kineto, which records a GPU, too; return what stops it and returns the trace."""
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
    stop: Callable[[], Any] = calls._disable_profiler
    return stop


def _start_paddle(core: Any) -> Callable[[], Any]:
    options = core.ProfilerOptions()
    options.trace_switch = 3 if core.is_compiled_with_cuda() else 1
    if (profiler := core._Profiler.create(options, [])) is None:
        raise RuntimeError("busy")
    profiler.prepare()
    profiler.start()
    stop: Callable[[], Any] = profiler.stop
    return stop


def _recording(directory: str, name: str) -> Iterator[None]:
    """Begin to record, stop, and write the trace: each when the next value is asked for. Where that is
    impossible, the file has the problem: a code, or the text of an exception."""
    path = os.path.join(directory, f"answer-{name}")
    draft = f"{path}.{os.getpid()}"
    torch, core = sys.modules.get("torch"), sys.modules.get("paddle.base.core")
    try:
        if hasattr(torch, "profiler"):  # else it is being imported
            stop, words = _start_torch(torch), list[str]()
        elif core is not None:
            stop, words = _start_paddle(core), ["json"]
        else:
            raise RuntimeError("no-framework")
        yield
        trace = stop()
        yield
        trace.save(draft, *words)
        os.chmod(draft, 0o600)
        os.replace(draft, path)
    except Exception as error:  # noqa: BLE001 - private calls of any version of a framework
        with suppress(OSError):
            put(path, json.dumps({"problem": str(error) or type(error).__name__}).encode())


def record(directory: str, name: str, seconds: float) -> None:
    """Record for so long, but not too many steps, and write the trace into the rank's directory."""
    end, last = time.monotonic() + seconds, _ended + _MOST
    for _ in _recording(directory, name):
        while time.monotonic() < end and _ended < last:
            time.sleep(_LOOKS)


def step_ended(optimizer: int) -> None:
    """Take the end of a step of the main thread, at which the profile of ``--profile`` begins or ends. With
    several optimizers those of the first count."""
    global _ended, _owner, _window, _begun
    if not _ended:
        _owner, _window = optimizer, [*map(int, os.environ.get(STEPS, "0:0").split(":"))]
    if optimizer != _owner:
        return
    _ended += 1
    if _ended == _window[0]:
        _begun = _recording(os.environ["NBDIST_RANK_DIR"], BY_STEPS)
        next(_begun, None)
    elif _ended == _window[1] and _begun is not None:
        next(_begun, None)
        _thread.start_new_thread(next, (_begun, None))
