"""A lock that a thread of a rank holds while it imports, and every fork of the process as well.

A module that another thread's fork meets half imported would stay locked in the child for ever.
"""

from __future__ import annotations

import _thread
import os

import_lock = _thread.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=import_lock.acquire, after_in_parent=import_lock.release, after_in_child=import_lock.release
    )
