"""``nbdist.rejoin``: the ranks of a session leave a process group that is broken, and join a new one.

torch's groups alone. paddle has one store for each process, and keeps what its old group has written there.
"""

from __future__ import annotations

import os
import sys

from nbdist.worker.order import REJOINED, Channel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

port: int | None = None
"""Where the ranks may meet anew during this cell; 0 where they have, None in no session."""

_WRAPPERS = frozenset({"DistributedDataParallel", "FullyShardedDataParallel"})


def rejoin() -> None:
    """Leave the process group, and join a new one with the same backend and the same ranks. All ranks of the
    session call it, in the same cell.

    What belongs to the old group has to be made again, and is named in a printed line: models that are
    wrapped in DistributedDataParallel or FullyShardedDataParallel, groups of ``new_group``.

    Nothing is done in a cell before which nbdist has done it, as the line says that it prints then.

    Raises RuntimeError outside of a session and without a process group, and as ``init_process_group``.
    """
    if port is None:
        raise RuntimeError("nbdist.rejoin() is for the ranks of a session: call it below  %%ranks")
    if port == 0:
        return
    if not is_joined():
        raise RuntimeError("there is no process group to be left: write  dist.init_process_group()")
    move(join=True)


def is_joined() -> bool:
    """Whether this rank is in a process group of torch."""
    dist: Any = sys.modules.get("torch.distributed")
    return dist is not None and dist.is_available() and dist.is_initialized()


def move(*, join: bool) -> None:
    """Leave the process group, if there is one, and let the next one meet at ``port``; ``join`` it."""
    global port
    os.environ["MASTER_PORT"], port = str(port), 0
    # from now on the supervisor knows where the store is
    Channel().say(REJOINED)
    if not is_joined():
        paddle: Any = sys.modules.get("paddle.distributed")
        if paddle is not None and paddle.is_initialized():
            print("nbdist: paddle's process group cannot be joined anew: %dist_session reset  ends all ranks")
        return
    dist: Any = sys.modules["torch.distributed"]
    backend = str(getattr(dist, "get_backend_config", dist.get_backend)())
    # cpu:gloo,cuda:gloo
    if len(names := {part.rpartition(":")[2] for part in backend.split(",")}) == 1:
        backend = min(names)
    lost = _of_the_group(dist)
    try:
        dist.destroy_process_group()
    except Exception as error:  # noqa: BLE001 - what is broken may complain when it is left
        print(f"nbdist: leaving the process group: {type(error).__name__}: {error}")
    if not join:
        print("nbdist: the process group was broken, and is left: join it anew with  init_process_group")
        return
    dist.init_process_group(backend)
    again = f"; to be made again: {', '.join(lost)}" if lost else ""
    print(f"nbdist: {dist.get_world_size()} ranks have joined a new process group ({backend}){again}")


def _of_the_group(dist: Any) -> list[str]:
    """The names of the cells whose values belong to the group: ``model (DistributedDataParallel)``."""
    found = []
    for name, value in list(sys.modules["__main__"].__dict__.items()):
        kinds = {kind.__name__ for kind in type(value).__mro__}
        if wrapper := kinds & _WRAPPERS:
            found.append(f"{name} ({min(wrapper)})")
        elif isinstance(value, dist.ProcessGroup) and not name.startswith("_"):
            found.append(f"{name} (ProcessGroup)")
    return found
