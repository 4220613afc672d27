"""What is known of errors: one readable table, in a file for each family of software.

A row that would match what a healthy program prints is a defect: patterns are searched in the text of
the first failure alone, and tested against the logs of runs that went well.
"""

from __future__ import annotations

import re
from functools import lru_cache

from nbdist.diagnosis.signatures import (
    cuda,
    exits,
    nccl,
    paddle,
    python,
    torch_data,
    torch_parallel,
    torch_ranks,
    torch_tensors,
    torch_training,
)
from nbdist.diagnosis.signatures.signature import Role, Signature, Source

# the first that matches counts: NCCL's and CUDA's errors come in torch's and paddle's words
SIGNATURES: tuple[Signature, ...] = (
    *nccl.SIGNATURES,
    *torch_ranks.SIGNATURES,
    *torch_parallel.SIGNATURES,
    *torch_data.SIGNATURES,
    *torch_tensors.SIGNATURES,
    *torch_training.SIGNATURES,
    *cuda.SIGNATURES,
    *paddle.SIGNATURES,
    *python.SIGNATURES,
    *exits.SIGNATURES,
)


# what an error is stands in front, and behind what it passes on; between them native stacks have 45 KB
_HEAD, _TAIL = 4_096, 1_024


def match(text: str, source: Source = Source.ERROR) -> tuple[Signature, re.Match[str]] | None:
    """The signature of an error's (or an exit's) text and where it matched; None for an unknown one.

    Of a long text only both ends are searched.
    """
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]}\n{text[-_TAIL:]}"
    return _match(text, source)


# hundreds of ranks say the same
@lru_cache(maxsize=64)
def _match(text: str, source: Source) -> tuple[Signature, re.Match[str]] | None:
    for signature in SIGNATURES:
        if signature.source is source and (found := re.search(signature.pattern, text)) is not None:
            return signature, found
    return None


def named(name: str) -> Signature:
    """The signature with this name, for what no pattern can see."""
    return next(signature for signature in SIGNATURES if signature.name == name)


__all__ = ["SIGNATURES", "Role", "Signature", "Source", "match", "named"]
