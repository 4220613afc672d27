"""The embeddings of a view, by the names of its curves."""

from __future__ import annotations

import array
import csv
import io
import sys
from typing import Any

from visualdl.server import lib
from visualdl.utils.string_util import decode_tag


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
