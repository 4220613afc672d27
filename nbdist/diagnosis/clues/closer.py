"""What looks closer at the program: by the row that knows the error, for any, and where no row knows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from nbdist.diagnosis.clues.arguments import of_quoted
from nbdist.diagnosis.clues.attributes import (
    of_attribute,
    of_constructor,
    of_renamed_label,
    of_self,
    of_special,
)
from nbdist.diagnosis.clues.by_rank import of_model
from nbdist.diagnosis.clues.calls import of_class, of_class_as_layer, of_function, of_misspelt
from nbdist.diagnosis.clues.devices import of_devices, of_map_location
from nbdist.diagnosis.clues.exchanges import of_sends
from nbdist.diagnosis.clues.forward_hooks import of_hook
from nbdist.diagnosis.clues.kernels import of_assertion, of_attention, of_capture, of_large
from nbdist.diagnosis.clues.kinds import of_called, of_listed
from nbdist.diagnosis.clues.memory import of_cpu, of_gpu
from nbdist.diagnosis.clues.missing_files import of_mapped, of_removal, of_workers
from nbdist.diagnosis.clues.names import of_best, of_columns, of_key, of_names, of_near, of_number_key
from nbdist.diagnosis.clues.packing import of_packed
from nbdist.diagnosis.clues.samplers import of_fetched, of_sampler
from nbdist.diagnosis.clues.samples import of_shapes, of_single
from nbdist.diagnosis.clues.shapes import (
    of_alpha,
    of_batchless,
    of_dummies,
    of_flat_picture,
    of_folded,
    of_gray,
    of_masks,
    of_places,
    of_positions,
    of_rows,
    of_state,
    of_turned,
    of_unlike,
)
from nbdist.diagnosis.clues.training import (
    of_idle,
    of_in_place,
    of_reduced_twice,
    of_replaced,
    of_squeezed,
    of_twice,
    of_used_up,
)
from nbdist.diagnosis.clues.unset import of_unset, of_unset_in_module
from nbdist.diagnosis.clues.values import (
    of_broadcast,
    of_decoder,
    of_empty,
    of_given_nan,
    of_ids,
    of_labels,
    of_nan,
    of_number,
    of_recursion,
    of_sample,
    of_text,
    of_value,
)
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.signatures import Hint

Clue = Callable[[Failure], Hint | None]

_ALWAYS: tuple[Clue, ...] = (
    of_assertion,
    of_sample,
    of_single,
    of_broadcast,
    of_rows,
    of_folded,
    of_hook,
    of_packed,
    of_fetched,
    of_special,
    of_self,
    of_class,
    of_class_as_layer,
    of_function,
)
"""For any error, whether a row knows it or not."""

_BY_ROW: Mapping[str, tuple[Clue, ...]] = MappingProxyType(
    {
        "argument-of-collective": (of_number,),
        "argument-unknown": (of_constructor, of_misspelt),
        "arrays-unlike": (of_gray,),
        "attribute-of-several": (of_state,),
        "attention-no-kernel": (of_attention,),
        "backward-twice": (of_twice,),
        "batch-sizes-differ": (of_positions,),
        "best-metric-missing": (of_best, of_names),
        "checkpoint-device": (of_map_location,),
        "class-without-init": (of_constructor,),
        "collate-rows": (of_shapes,),
        "collate-sizes": (of_shapes,),
        "columns-not-there": (of_names, of_key),
        "compared-with-none": (of_value,),
        "dataset-too-long": (of_sampler,),
        "cuda-out-of-memory": (of_gpu,),
        "cuda-graph-capture": (of_capture,),
        "cuda-illegal-access": (of_large,),
        "cuda-launch-failure": (of_large,),
        "ddp-models-differ": (of_model,),
        "ddp-ready-twice": (of_reduced_twice,),
        "ddp-unused-parameters": (of_idle,),
        "devices-differ": (of_devices,),
        "devices-of-two-gpus": (of_devices,),
        "dimension-missing": (of_squeezed,),
        "file-missing": (of_removal,),
        "file-missing-there": (of_removal,),
        "format-of-array": (of_value,),
        "forward-argument-unknown": (of_renamed_label,),
        "hidden-state-shape": (of_turned,),
        "index-of-array": (of_sampler,),
        "index-of-tensor": (of_sampler,),
        "index-out-of-range": (of_ids,),
        "indices-of-numpy": (of_flat_picture,),
        "indices-of-tensor": (of_squeezed,),
        "infinite-values": (of_nan,),
        "integer-of-nan": (of_nan,),
        "key-as-attribute": (of_near,),
        # nan is neither below 0 nor above 1, and so no probability
        "labels-beyond-one": (of_given_nan,),
        "list-already": (of_listed,),
        "list-as-tensor": (of_listed,),
        "list-too-short": (of_empty,),
        "loss-is-none": (of_value,),
        "matmul-shapes": (of_dummies,),
        "memmap-too-long": (of_mapped,),
        "memory": (of_cpu,),
        "method-without-self": (of_constructor,),
        "metrics-of-other-engine": (of_key,),
        "missing-values": (of_nan,),
        "module-attribute": (of_near,),
        "name-not-set-yet": (of_unset,),
        "name-overwritten": (of_called,),
        "nccl-internal-error": (of_sends,),
        "never-set": (of_value,),
        "no-input-ids": (of_decoder,),
        "not-finite": (of_nan,),
        "not-probabilities": (of_given_nan,),
        "not-probabilities-drawn": (of_nan,),
        "number-is-text": (of_text,),
        "number-looped-over": (of_squeezed,),
        "number-without-dimensions": (of_squeezed,),
        "one-dimension-less": (of_squeezed,),
        "optimizer-empty": (of_used_up,),
        "option-not-defined": (of_near,),
        "paddle-argument-text": (of_quoted,),
        "paddle-backward-twice": (of_twice,),
        "paddle-channel-missing": (of_batchless,),
        "paddle-collate-shapes": (of_shapes,),
        "paddle-embedding-from-one": (of_places,),
        "paddle-embedding-range": (of_places,),
        "paddle-gradient-twice": (of_reduced_twice,),
        "paddle-in-place": (of_in_place,),
        "paddle-label-out-of-range": (of_masks,),
        "paddle-labels-shape": (of_positions,),
        "paddle-not-probabilities": (of_given_nan,),
        "paddle-state-of-another-batch": (of_turned,),
        "recursion": (of_recursion,),
        "row-beyond-table": (of_sampler,),
        "scalar-indexed": (of_squeezed,),
        "scaler-no-gradients": (of_replaced,),
        "shapes-differ": (of_alpha, of_unlike),
        "target-negative": (of_labels,),
        "target-out-of-range": (of_masks,),
        "zip-read-crossed": (of_workers,),
    }
)
_NOT_THERE = "key-not-there"


def of_any(failure: Failure) -> Hint | None:
    """Of what tells the cause better than the row for the error's words."""
    return _first(_ALWAYS, failure)


def of_row(name: str, failure: Failure) -> Hint | None:
    """Of an error that the row with this name knows."""
    return _first(_BY_ROW.get(name, ()), failure)


def of_missing_name(failure: Failure) -> Hint | None:
    """Of an error that no row knows, of a name that is not there."""
    key = _first((of_best, of_number_key, of_names, of_key), failure)
    if key is None or key.signature == _NOT_THERE:
        key = of_columns(failure) or key
    return key or of_unset_in_module(failure) or of_attribute(failure)


def _first(clues: tuple[Clue, ...], failure: Failure) -> Hint | None:
    return next((found for clue in clues if (found := clue(failure)) is not None), None)
