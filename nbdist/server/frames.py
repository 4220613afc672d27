"""What goes over the stream's socket: frames to the page, and what a page may say. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nbdist.feed.protocol import Update, encode, frame
from nbdist.store.run_store import RUN_ID

_LARGEST = 1 << 53
_MOST_RUNS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a page said. ``have``: of some ranks, the address of the first line that the page lacks. Of the
    lines between ``after`` and ``before`` the last come first."""

    kind: Literal["watch", "unwatch", "ack", "pull", "runs", "unruns", "pause", "resume"]
    run_id: str = ""
    have: Mapping[int, int] = field(default_factory=dict)
    rank: int = 0
    after: int = 0
    before: int = 0
    limit: int = 0


def update_frame(run_id: str, update: Update, *, pulled: bool = False) -> bytes:
    content, buffers = encode(update)
    return frame({**content, "run_id": run_id, "pulled": pulled}, buffers)


def read_request(text: str | bytes) -> Request:
    """What the page said. Raises ValueError, with what is wrong."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("this is not JSON") from error
    if not isinstance(said, dict):
        raise ValueError("this is not an object")
    match said.get("kind"):
        case "watch":
            return Request(kind="watch", run_id=_run_id(said), have=_have(said.get("from", "tail")))
        case "unwatch" | "ack" as kind:
            return Request(kind=kind, run_id=_run_id(said))
        case "pull":
            return Request(
                kind="pull",
                run_id=_run_id(said),
                rank=_number(said, "rank"),
                after=_number(said, "after"),
                before=_number(said, "before"),
            )
        case "runs":
            limit = _number(said, "limit") if "limit" in said else 50
            return Request(kind="runs", limit=max(1, min(_MOST_RUNS, limit)))
        case "unruns" | "pause" | "resume" as kind:
            return Request(kind=kind)
        case kind:
            raise ValueError(f"no kind {str(kind)[:40]!r}")


def _run_id(said: Mapping[str, Any]) -> str:
    run_id = said.get("run_id")
    if not isinstance(run_id, str) or not RUN_ID.fullmatch(run_id):
        raise ValueError("run_id is not the id of a run")
    return run_id


def _have(wanted: object) -> dict[int, int]:
    if wanted == "tail":
        return {}
    if not isinstance(wanted, dict) or not all(
        key.isascii() and key.isdigit() and len(key) < 10 for key in wanted
    ):
        raise ValueError('from is "tail", or the address of a line for each rank')
    return {int(rank): _number(wanted, rank) for rank in wanted}


def _number(said: Mapping[str, Any], name: str) -> int:
    value = said.get(name)
    if type(value) is not int or not 0 <= value < _LARGEST:
        raise ValueError(f"{name} is not a number from 0 on")
    return value
