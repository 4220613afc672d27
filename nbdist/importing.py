"""A lock for a thread of a rank that imports, and for every fork: a module that is half imported at another
thread's fork would stay locked in the child for ever."""

from __future__ import annotations

import _thread
import os

import_lock = _thread.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=import_lock.acquire, after_in_parent=import_lock.release, after_in_child=import_lock.release
    )
