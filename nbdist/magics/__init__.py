"""The magics: parse, call, present."""

from nbdist.magics.extension import load, unload

__all__ = ["load", "unload"]
