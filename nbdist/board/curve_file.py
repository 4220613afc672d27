"""The scalars of one directory, as VisualDL reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nbdist.board.records import RecordFile
from nbdist.worker.records import FILE_NAME, encode_hparams, encode_name, encode_scalar


class CurveFile:
    """The scalars of one directory, and those that are not written yet."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        self._file: RecordFile | None = None
        self._begun = False
        self._waiting = bytearray()

    def add(self, milliseconds: int, tag: str, step: int, value: float) -> None:
        self._begin(milliseconds)
        self._waiting += encode_scalar(tag=tag, step=step, value=value, milliseconds=milliseconds)

    def add_hparams(self, milliseconds: int, hparams: dict[str, Any], metrics: list[str]) -> None:
        self._begin(milliseconds)
        self._waiting += encode_hparams(
            name=self._name, hparams=hparams, metrics=metrics, milliseconds=milliseconds
        )

    def write(self) -> None:
        """Raises OSError; then all of it waits for the next time."""
        if not self._waiting:
            return
        if self._file is None:
            self._directory.parent.mkdir(mode=0o700, exist_ok=True)  # not its parents: a run may be deleted
            self._directory.mkdir(mode=0o700, exist_ok=True)
            self._file = RecordFile(self._directory / FILE_NAME)
        self._file.append(bytes(self._waiting))
        self._waiting.clear()

    def _begin(self, milliseconds: int) -> None:
        if not self._begun:
            self._waiting += encode_name(self._name, milliseconds=milliseconds)
            self._begun = True
