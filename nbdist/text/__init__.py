"""The words that a user reads, English and Chinese side by side, by code: read from the files beside this one
when the first of them is asked for. The processes of a run make codes and never come here."""

from nbdist.text.catalogue import Both, both, fill, reason_text, say

__all__ = ["Both", "both", "fill", "reason_text", "say"]
