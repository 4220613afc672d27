"""Reads and writes tensors of torch and paddle, and modules' state_dicts, as files of safetensors.

The format is an index of JSON after its length in eight bytes, then the bytes of each tensor in its order:
https://huggingface.co/docs/safetensors. Reading it executes nothing.
"""

from __future__ import annotations

import json
import math
import os
import sys
from importlib import import_module

from nbdist.values.box import write_evenly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, BinaryIO

DTYPES = {
    **{f"float{bits}": f"F{bits}" for bits in (64, 32, 16)},
    **{f"int{bits}": f"I{bits}" for bits in (64, 32, 16, 8)},
    **{f"uint{bits}": f"U{bits}" for bits in (64, 32, 16, 8)},
    "bfloat16": "BF16",
    "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
"""The dtypes of torch and paddle with safetensors' names for them."""

_NAMES = {short: name for name, short in DTYPES.items()}
_MOST_INDEX = 1 << 27  # bytes
_SHARDED = ("DTensor", "ShardedTensor")


def state_of(value: object) -> object:
    """Return a module's state_dict, without DistributedDataParallel's prefix, and any other value unchanged.
    All ranks of a sharded module (FSDP) have to call it."""
    module: Any = value
    torch, paddle = _frameworks()
    if torch is not None and isinstance(module, torch.nn.Module):
        while type(module).__name__ in ("DistributedDataParallel", "DataParallel"):
            module = module.module
        return module.state_dict()
    is_layer = paddle is not None and isinstance(module, paddle.nn.Layer)
    return module.state_dict() if is_layer else value


def framework_of(tensor: object) -> str:
    """Return torch or paddle for a plain tensor; empty for a sparse, quantised or complex one. Raises
    TypeError for a tensor that is sharded over the ranks."""
    given: Any = tensor
    torch, paddle = _frameworks()
    if torch is not None and isinstance(given, torch.Tensor):
        if type(given).__name__ in _SHARDED:
            raise TypeError(
                "it is sharded over the ranks: gather it on all of them with full_tensor() or with "
                "torch.distributed.checkpoint.state_dict.get_model_state_dict"
            )
        plain = type(given) in (torch.Tensor, torch.nn.Parameter) and given.layout is torch.strided
        return "torch" if plain and given.device.type != "meta" and dtype_of(given) in DTYPES else ""
    if paddle is not None and isinstance(given, paddle.Tensor):
        plain = given.is_dense() and given._is_initialized()
        return "paddle" if plain and dtype_of(given) in DTYPES else ""
    return ""


def dtype_of(tensor: Any) -> str:
    """Return a tensor's dtype without the framework's name."""
    return str(tensor.dtype).rpartition(".")[2]


def write(file: BinaryIO, tensors: Mapping[str, Any], framework: str) -> None:
    """Write tensors by their names; copy one at a time from the GPU."""
    header: dict[str, object] = {"__metadata__": {"framework": framework}}
    at = 0
    for name, tensor in tensors.items():
        kind, shape = DTYPES[dtype_of(tensor)], list(tensor.shape)
        size = math.prod(shape) * tensor.element_size()
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for tensor in tensors.values():
        write_evenly(file, _bytes_of(tensor, framework))


def read(file: BinaryIO, framework: str) -> dict[str, Any]:
    """Return copies of a file's tensors. Raises ValueError for any other file."""
    length = int.from_bytes(file.read(8), "little")
    if length > min(_MOST_INDEX, os.fstat(file.fileno()).st_size):
        raise ValueError("it does not begin as a file of safetensors")
    make = {"torch": _torch_tensor, "paddle": _paddle_tensor}[framework]
    from nbdist.model.decoding import MALFORMED, loads  # ranks only write, and do without

    try:
        index = loads(file.read(length), exact=True)
        return {
            name: make(file, _NAMES[about["dtype"]], about["shape"])
            for name, about in index.items()
            if name != "__metadata__"
        }
    except MALFORMED as error:
        raise ValueError(f"its index cannot be read: {error}") from None


def _torch_tensor(file: BinaryIO, dtype: str, shape: list[int]) -> Any:
    torch: Any = import_module("torch")
    tensor = torch.empty(shape, dtype=getattr(torch, dtype))
    _fill(memoryview(tensor.reshape(-1).view(torch.uint8).numpy()), file)
    return tensor


def _paddle_tensor(file: BinaryIO, dtype: str, shape: list[int]) -> Any:
    import numpy

    paddle: Any = import_module("paddle")
    # numpy has no bfloat16; paddle takes its uint16 for that
    array = numpy.empty(math.prod(shape), {"bfloat16": "uint16"}.get(dtype, dtype))
    _fill(array.view("uint8").data, file)
    return paddle.to_tensor(array.reshape(shape), place=paddle.CPUPlace())


def _fill(room: memoryview, file: Any) -> None:
    if file.readinto(room) != len(room):
        raise ValueError("it ends too soon")


def _bytes_of(tensor: Any, framework: str) -> memoryview:
    if framework == "paddle":
        return memoryview(tensor.numpy().reshape(-1).view("uint8"))
    plain = tensor.detach().cpu().contiguous().reshape(-1)
    return memoryview(plain.view(sys.modules["torch"].uint8).numpy())


def _frameworks() -> list[Any]:
    """Return torch and paddle, or None for one that is not imported completely."""
    modules = map(sys.modules.get, ("torch", "paddle"))
    return [module if hasattr(module, "nn") and hasattr(module, "Tensor") else None for module in modules]
