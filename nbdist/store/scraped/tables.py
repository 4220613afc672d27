"""Tables that a program prints row by row: their header, and which row says what.

epoch     train_loss  valid_loss  accuracy  time          fastai
0         0.612500    0.512500    0.725000  00:12
      Epoch    GPU_mem   box_loss   cls_loss  Size         YOLO, with a bar behind each row
        1/2      1.25G      1.234      3.456   640: 100%|████| 2/2 [00:02<00:00]
                 Class  Images  Instances  Box(P  R  mAP50  mAP50-95): 100%|██| 1/1 [00:00<00:00]
                   all       4         17  0.62  0.5  0.58     0.415
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from nbdist.store.scraped.line import Reading, plain
from nbdist.store.scraped.names import is_metric, tag_of
from nbdist.store.scraped.place import Place

_HEADER = re.compile(r"\s*epoch((?:\s{2,}[a-z]\w*){2,})\s*$")
_CLASSES = re.compile(
    r"\s*class\s+images\s+(?:instances|labels|targets)\s+(?P<columns>[\w(@.: -]*?map[\w@.-]*\s[^%]*?)\):?\s"
)
_EPOCH = re.compile(r"(\d+)(?:/(\d+))?$")
_NUMBER = re.compile(r"-?(?:\d*\.\d+(?:e[-+]?\d+)?|nan|inf)$")
_PATIENCE = 40  # lines that are no rows, after which a table has ended
_LOSSES = frozenset({"box", "obj", "cls", "dfl", "total"})
"""What YOLO's older versions call their losses, in a table that has several of them."""


class Tables:
    """The table that is being printed, if there is one."""

    def __init__(self) -> None:
        self._columns: Sequence[str] = ()
        self._scores: Sequence[str] = ()
        self._others = 0

    @property
    def is_open(self) -> bool:
        return bool(self._columns)

    def read(self, line: str) -> Reading | None:
        """What a line says as a row; None when it is no row that counts."""
        if not self._columns and "poch  " not in line:
            return None
        text = plain(line).lower()
        if (header := _HEADER.match(text)) is not None:
            names = header[1].split()
            if any(is_metric(tag_of(name)) for name in names) or len(_LOSSES & {*names}) > 1:
                self._columns, self._others = names, 0
            return None
        if not self._columns:
            return None
        if (classes := _CLASSES.match(text)) is not None:
            self._scores = re.sub(r"\w+\(", "", classes["columns"]).replace(")", "").split()
            return None
        reading = self._row(text.split())
        self._others = 0 if reading is not None else self._others + 1
        if self._others > _PATIENCE:
            self._columns = self._scores = ()
        return reading

    def _row(self, fields: list[str]) -> Reading | None:
        epoch = _EPOCH.match(fields[0]) if fields else None
        count = len(self._columns) + 1
        if epoch is not None and len(fields) >= count:
            # a bar goes on until it is full
            if len(fields) > count and not fields[count].startswith("100%"):
                return None
            values = _values(self._columns, fields[1:count])
            place = Place(epoch=float(epoch[1]), epochs=int(epoch[2]) if epoch[2] else None)
            return Reading(values=values, place=place) if values else None
        if self._scores and fields and fields[0] == "all" and len(fields) == 3 + len(self._scores):
            values = _values(self._scores, fields[3:])
            return Reading(values={f"val_{tag}": v for tag, v in values.items() if "map" in tag}, phase="val")
        return None


def _values(names: Sequence[str], fields: Sequence[str]) -> dict[str, float]:
    values: dict[str, float] = {}
    for name, field in zip(names, fields, strict=True):
        tag = tag_of(name)
        if _NUMBER.match(field) and (is_metric(tag) or name in _LOSSES):
            values.setdefault(tag, float(field))
    return values
