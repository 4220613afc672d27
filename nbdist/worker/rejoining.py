"""``nbdist.rejoin``: the ranks of a session leave a process group that is broken, and join a new one.

paddle has one store for each process, which ``init_parallel_env`` takes again, and a communicator for each
number of a group: a new group gets another store and a number of its own.
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
_PADDLE_WRAPPERS = frozenset({"DataParallel"})

_PADDLE_GROUP = 1_000_000
"""The number of paddle's first new group: those of ``new_group`` are lower."""
_PADDLE_LIMIT = 60  # seconds in which its ranks meet

_moves = 0


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
    """Whether this rank is in a process group of torch or paddle."""
    dist: Any = sys.modules.get("torch.distributed")
    return (dist is not None and dist.is_available() and dist.is_initialized()) or _paddle() is not None


def _paddle() -> Any:
    """paddle.distributed where this rank is in a group of it."""
    dist: Any = sys.modules.get("paddle.distributed")
    return dist if dist is not None and dist.is_initialized() else None


def move(*, join: bool) -> None:
    """Leave the process group, if there is one, and let the next one meet at ``port``; ``join`` it."""
    global port
    os.environ["MASTER_PORT"], port = str(port), 0
    # from now on the supervisor knows where the store is
    Channel().say(REJOINED)
    if not is_joined():
        return
    if (paddle := _paddle()) is not None:
        if join:
            _move_paddle(paddle)
        else:
            print("nbdist: paddle's group was broken, and not all ranks are in it: %dist_session reset")
        return
    dist: Any = sys.modules["torch.distributed"]
    backend = str(getattr(dist, "get_backend_config", dist.get_backend)())
    # cpu:gloo,cuda:gloo
    if len(names := {part.rpartition(":")[2] for part in backend.split(",")}) == 1:
        backend = min(names)
    lost = _of_the_group(_WRAPPERS, dist.ProcessGroup)
    try:
        dist.destroy_process_group()
    except Exception as error:  # noqa: BLE001 - what is broken may complain when it is left
        print(f"nbdist: leaving the process group: {type(error).__name__}: {error}")
    if not join:
        print("nbdist: the process group was broken, and is left: join it anew with  init_process_group")
        return
    dist.init_process_group(backend)
    _say_joined(dist.get_world_size(), backend, lost)


def _say_joined(ranks: int, backend: str, lost: list[str]) -> None:
    again = f"; to be made again: {', '.join(lost)}" if lost else ""
    print(f"nbdist: {ranks} ranks have joined a new process group ({backend}){again}")


def _move_paddle(dist: Any) -> None:
    """As ``init_parallel_env`` does it (paddle 3), with a store that is not the process's first."""
    global _moves
    core: Any = sys.modules["paddle.base"].core
    collective: Any = sys.modules["paddle.distributed.collective"]
    groups: Any = sys.modules["paddle.distributed.communication.group"]
    _moves += 1
    backend, name = dist.get_backend().lower(), collective._default_group_name
    rank, ranks = dist.get_rank(), dist.get_world_size()
    lost = _of_the_group(_PADDLE_WRAPPERS, groups.Group)
    dist.destroy_process_group()
    for known in (collective._group_map, collective._group_map_by_name, collective._group_map_backend):
        known.clear()
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if rank:
        _await_store(address)
    store = core.TCPStore(*address, rank == 0, ranks, _PADDLE_LIMIT)
    collective._set_default_store(store)
    number = _PADDLE_GROUP + _moves
    made = collective._new_process_group_impl(backend, store, rank, ranks, name, None, group_id=number)
    group = groups.Group(rank, 0, list(range(ranks)), pg=made, name=name)
    collective._set_group_map_by_name(name, group)
    collective._set_group_map(0, group)
    collective._set_group_map_backend(group, backend)
    groups._add_new_group(group)
    _say_joined(ranks, backend, lost)


def _await_store(address: tuple[str, int]) -> None:
    """paddle waits for three seconds where the store is not there at once."""
    import socket
    import time

    deadline = time.monotonic() + _PADDLE_LIMIT
    while time.monotonic() < deadline:
        try:
            socket.create_connection(address, 1.0).close()
            return
        except OSError:
            time.sleep(0.01)


def _of_the_group(wrappers: frozenset[str], group: type) -> list[str]:
    """The names of the cells whose values belong to the group: ``model (DistributedDataParallel)``."""
    found = []
    for name, value in list(sys.modules["__main__"].__dict__.items()):
        kinds = {kind.__name__ for kind in type(value).__mro__}
        if wrapper := kinds & wrappers:
            found.append(f"{name} ({min(wrapper)})")
        elif isinstance(value, group) and not name.startswith("_"):
            found.append(f"{name} ({group.__name__})")
    return found
