"""``nbdist.should_stop``: the same answer in every rank, whether the run has reached its limit of time.

The ranks do not talk to each other for that. At the limit, each rank's listener (``stack_answers``) stops
the next call and tells the supervisor how many there were. The supervisor names one that no rank has begun,
and the calls go on. So the ranks leave at the same call, though they make it at different times.
"""

from __future__ import annotations

import _thread

calls = 0
"""The number of calls that have begun."""

_last = 0
_pause: _thread.LockType | None = None


def should_stop() -> bool:
    """Return True once the run has reached the limit of ``--until``, for all ranks in the same call:

        for step in range(first, steps):
            ...
            if nbdist.should_stop():
                save(step)
                break

    Call it as often in every rank, such as once a step. Outside a run it returns False.
    """
    global calls
    calls += 1
    if _pause is not None:
        with _pause:
            pass
    return 0 < _last <= calls


def pause() -> int:
    """Let the next call wait for ``name``; return how many have begun."""
    global _pause
    if _pause is None:
        lock = _thread.allocate_lock()
        lock.acquire()
        _pause = lock
    return calls


def name(call: int) -> None:
    """Let ``should_stop`` be True from this call on."""
    global _last, _pause
    _last = call
    if _pause is not None:
        lock, _pause = _pause, None
        lock.release()
