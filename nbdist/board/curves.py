"""The curves of a view: their names, which of their points are kept, and the embeddings beside them."""

from __future__ import annotations

import array
import csv
import io
import os
import re
import sys
from pathlib import Path
from typing import Any

from visualdl.server import data_manager, lib
from visualdl.utils.string_util import decode_tag


class Boards(list[str]):
    """The directories that VisualDL reads, and may be more later. ``named`` are those among which their
    curves have names."""

    def __init__(self, *, named: list[str]) -> None:
        super().__init__()
        self.named = named
        self.changed = False  # since it was last read
        self.reader: Any = None  # VisualDL's, which reads them
        self.behind = False  # whether more is known to be there than it has read

    def add(self, directory: str) -> None:
        if directory not in self:
            self.append(directory)
            self.changed = True


def curve_name(directory: str, logdirs: list[str]) -> str:
    """How the curves of a directory are called: ``rank0``, and with several runs ``lenet-k3f9/rank0``.

    ``logdirs`` are the boards of the runs, ``…/<run_id>/board``. Names differ whenever directories
    do; what a program called itself would not, and VisualDL merges what has the same name.
    """
    logdir = next(d for d in logdirs if directory == d or directory.startswith(d + os.sep))
    below = os.path.relpath(directory, logdir)
    run_ids = [Path(d).parent.name for d in logdirs]
    run_id = Path(logdir).parent.name
    if len(logdirs) == 1:
        return run_id if below == os.curdir else below
    short = _without_time(run_id)
    run = short if [_without_time(other) for other in run_ids].count(short) == 1 else run_id
    return run if below == os.curdir else f"{run}/{below}"


def natural(path: str) -> list[tuple[int, str]]:
    """Sorts rank2 before rank10; VisualDL shows curves in the order in which it met them."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", path)]


def _without_time(run_id: str) -> str:
    date, _, rest = run_id.partition("-")
    clock, _, name = rest.partition("-")
    return name if name and date.isdigit() and clock.isdigit() else run_id


class EvenBucket(data_manager._ReservoirBucket):  # type: ignore[misc]
    """The points of one curve: every n-th, the lowest, the highest, and always the last."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._items: list[Any]
        self._num_items_index: int
        self._numbers: list[int] = []  # which point each of _items is
        self._stride = 1
        self._lowest = self._highest = (0, float("nan"))

    def add_scalar_item(self, item: Any) -> None:
        is_scalar = item.WhichOneof("one_value") == "value"
        self.add(item, item.value if is_scalar else item.tag_value.value)

    add_scalars_item = add_scalar_item

    def add(self, item: Any, value: float) -> None:
        """Take an item, and what it is worth."""
        with self._mutex:
            number = self._num_items_index
            self._num_items_index = number + 1
            if not value >= self._lowest[1]:  # also when there is none yet: NaN
                self._lowest = (number, value)
            if not value <= self._highest[1]:
                self._highest = (number, value)
            numbers = self._numbers
            if numbers and not self._stays(numbers[-1]):
                numbers[-1], self._items[-1] = number, item
            else:
                numbers.append(number)
                self._items.append(item)
            while 0 < self._max_size < len(self._items):
                self._stride *= 2
                kept = [i for i, n in enumerate(self._numbers) if n == number or self._stays(n)]
                self._numbers = [self._numbers[i] for i in kept]
                self._items = [self._items[i] for i in kept]

    def _stays(self, number: int) -> bool:
        return not number % self._stride or number == self._lowest[0] or number == self._highest[0]


def get_embeddings_list(reader: Any) -> list[dict[str, Any]]:
    """Stands for ``lib.get_embeddings_list``: those of this reader, by the names of their curves."""
    listed = lib.get_logs(reader, "embeddings")
    found = []
    for run, tags in zip(listed["runs"], listed["tags"], strict=True):
        for tag in tags:
            rows = _embedding(reader, f"{run}/{tag}", (run, tag)).embeddings
            shape = [len(rows), len(rows[0].vectors) if rows else 0]
            found.append({"name": f"{run}/{tag}", "shape": shape, "path": f"{run}/{tag}"})
    return found


def get_embedding_labels(reader: Any, name: str) -> str:
    """Stands for ``lib.get_embedding_labels``: a row for each point, below the names of the columns."""
    shown = _embedding(reader, name)
    rows = [list(shown.label_meta)] if shown.label_meta else []
    rows += [list(row.label) for row in shown.embeddings]
    with io.StringIO() as text:
        csv.writer(text, delimiter="\t").writerows(rows)
        return text.getvalue()


def get_embedding_tensors(reader: Any, name: str) -> bytes:
    """Stands for ``lib.get_embedding_tensors``: little-endian float32, row after row."""
    values = array.array("f", (value for row in _embedding(reader, name).embeddings for value in row.vectors))
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()


def _embedding(reader: Any, name: str, parts: tuple[str, str] | None = None) -> Any:
    """The embedding of a curve and a tag, either of which may have slashes."""
    run, tag = parts or next(
        (run, name[len(run) + 1 :]) for run in sorted(reader.name2tags, key=len) if name.startswith(f"{run}/")
    )
    bucket = reader.data_manager.get_reservoir("embeddings")
    return bucket.get_items(reader.name2tags.get(run, run), decode_tag(tag))[0].embeddings
