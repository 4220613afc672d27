"""What looks closer at the program: by the row that knows the error, for any, and where no row knows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from nbdist.diagnosis.clues import (
    arguments,
    attributes,
    by_rank,
    calls,
    devices,
    exchanges,
    forward_hooks,
    kernels,
    kinds,
    memory,
    missing_files,
    names,
    pictures,
    recurrent,
    samplers,
    samples,
    shapes,
    training,
    unset,
    values,
)
from nbdist.diagnosis.rank_failure import Failure
from nbdist.diagnosis.signatures import Hint

Clue = Callable[[Failure], Hint | None]

_ALWAYS: tuple[Clue, ...] = (
    kernels.of_assertion,
    values.of_sample,
    samples.of_single,
    values.of_broadcast,
    shapes.of_rows,
    recurrent.of_folded,
    forward_hooks.of_hook,
    recurrent.of_packed,
    samplers.of_fetched,
    exchanges.of_mixed,
    attributes.of_special,
    attributes.of_self,
    calls.of_class,
    calls.of_class_as_layer,
    calls.of_function,
)
"""For any error, whether a row knows it or not."""

_BY_ROW: Mapping[str, tuple[Clue, ...]] = MappingProxyType(
    {
        "argument-of-collective": (values.of_number,),
        "argument-unknown": (attributes.of_constructor, calls.of_misspelt),
        "arrays-unlike": (pictures.of_gray,),
        "attribute-of-several": (recurrent.of_state,),
        "attention-no-kernel": (kernels.of_attention,),
        "backward-twice": (training.of_twice,),
        "batch-sizes-differ": (shapes.of_positions,),
        "best-metric-missing": (names.of_best, names.of_names),
        "checkpoint-device": (devices.of_map_location,),
        "class-without-init": (attributes.of_constructor,),
        "collate-rows": (samples.of_shapes,),
        "collate-sizes": (samples.of_shapes,),
        "columns-not-there": (names.of_names, names.of_key),
        "compared-with-none": (values.of_value,),
        "dataset-too-long": (samplers.of_sampler,),
        "cuda-out-of-memory": (memory.of_gpu,),
        "cuda-graph-capture": (kernels.of_capture,),
        "cuda-illegal-access": (kernels.of_large,),
        "cuda-launch-failure": (kernels.of_large,),
        "ddp-models-differ": (by_rank.of_model,),
        "ddp-ready-twice": (training.of_reduced_twice,),
        "ddp-unused-parameters": (training.of_idle,),
        "devices-differ": (devices.of_devices,),
        "devices-of-two-gpus": (devices.of_devices,),
        "dimension-missing": (training.of_squeezed,),
        "file-missing": (missing_files.of_removal,),
        "file-missing-there": (missing_files.of_removal,),
        "format-of-array": (values.of_value,),
        "forward-argument-unknown": (attributes.of_renamed_label,),
        "hidden-state-shape": (recurrent.of_turned,),
        "index-of-array": (samplers.of_sampler,),
        "index-of-tensor": (samplers.of_sampler,),
        "index-out-of-range": (values.of_ids,),
        "indices-of-numpy": (pictures.of_flat_picture,),
        "indices-of-tensor": (training.of_squeezed,),
        "infinite-values": (values.of_nan,),
        "integer-of-nan": (values.of_nan,),
        "key-as-attribute": (names.of_near,),
        # nan is neither below 0 nor above 1, and so no probability
        "labels-beyond-one": (values.of_given_nan,),
        "list-already": (kinds.of_listed,),
        "list-as-tensor": (kinds.of_listed,),
        "list-too-short": (values.of_empty,),
        "loss-is-none": (values.of_value,),
        "matmul-shapes": (shapes.of_dummies,),
        "memmap-too-long": (missing_files.of_mapped,),
        "memory": (memory.of_cpu,),
        "method-without-self": (attributes.of_constructor,),
        "metrics-of-other-engine": (names.of_key,),
        "missing-values": (values.of_nan,),
        "module-attribute": (names.of_near,),
        "name-not-set-yet": (unset.of_unset,),
        "name-overwritten": (kinds.of_called,),
        "nccl-internal-error": (exchanges.of_sends,),
        "never-set": (values.of_value,),
        "no-input-ids": (values.of_decoder,),
        "not-finite": (values.of_nan,),
        "not-probabilities": (values.of_given_nan,),
        "not-probabilities-drawn": (values.of_nan,),
        "number-is-text": (values.of_text,),
        "number-looped-over": (training.of_squeezed,),
        "number-without-dimensions": (training.of_squeezed,),
        "one-dimension-less": (training.of_squeezed,),
        "optimizer-empty": (training.of_used_up,),
        "option-not-defined": (names.of_near,),
        "paddle-argument-text": (arguments.of_quoted,),
        "paddle-backward-twice": (training.of_twice,),
        "paddle-channel-missing": (shapes.of_batchless,),
        "paddle-collate-shapes": (samples.of_shapes,),
        "paddle-embedding-from-one": (shapes.of_places,),
        "paddle-embedding-range": (shapes.of_places,),
        "paddle-gradient-twice": (training.of_reduced_twice,),
        "paddle-in-place": (training.of_in_place,),
        "paddle-label-out-of-range": (pictures.of_masks,),
        "paddle-labels-shape": (shapes.of_positions,),
        "paddle-not-probabilities": (values.of_given_nan,),
        "paddle-state-of-another-batch": (recurrent.of_turned,),
        "recursion": (values.of_recursion,),
        "row-beyond-table": (samplers.of_sampler,),
        "scalar-indexed": (training.of_squeezed,),
        "scaler-no-gradients": (training.of_replaced,),
        "shapes-differ": (pictures.of_alpha, shapes.of_unlike),
        "target-negative": (values.of_labels,),
        "target-out-of-range": (pictures.of_masks,),
        "zip-read-crossed": (missing_files.of_workers,),
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
    key = _first((names.of_best, names.of_number_key, names.of_names, names.of_key), failure)
    if key is None or key.signature == _NOT_THERE:
        key = names.of_columns(failure) or key
    return key or unset.of_unset_in_module(failure) or attributes.of_attribute(failure)


def _first(clues: tuple[Clue, ...], failure: Failure) -> Hint | None:
    return next((found for clue in clues if (found := clue(failure)) is not None), None)
