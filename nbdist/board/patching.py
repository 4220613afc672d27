"""How VisualDL is changed in this process: wholly, or not at all."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from nbdist.errors import LaunchError


class VisualDLChangedError(LaunchError):
    """The installed VisualDL lacks something that we change; nbdist knows 2.5.3."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """``module``.``name`` becomes ``replacement``, because of ``reason``."""

    module: str
    name: str
    replacement: object
    reason: str


def apply(patches: Sequence[Patch]) -> None:
    """Change VisualDL in this process.

    :raises VisualDLChangedError: when one of the names is not there; then nothing was changed.
    """
    found = [(_owner(patch), patch) for patch in patches]
    for owner, patch in found:
        setattr(owner, patch.name.rpartition(".")[2], patch.replacement)
    logging.getLogger("vdl_logger").setLevel(logging.CRITICAL)  # it logs every refresh of a cache


def _owner(patch: Patch) -> object:
    path, _, name = patch.name.rpartition(".")
    try:
        owner: object = importlib.import_module(patch.module)
        for part in filter(None, path.split(".")):
            owner = getattr(owner, part)
        getattr(owner, name)
    except (ImportError, AttributeError) as error:
        raise VisualDLChangedError(f"{patch.module} has no {patch.name} here: {error}") from error
    return owner
