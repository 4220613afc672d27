"""Where several machines meet, and which of them this is. Each raises UsageMistake."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nbdist.errors import UsageMistake


def count_of_nodes(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise UsageMistake(f"--nodes {text}: write a number of machines, for example  --nodes 2")
    return int(text)


def node_rank(text: str) -> int:
    if not text.isdigit():
        raise UsageMistake(f"--node-rank {text}: number the machines from 0:  --node-rank 0")
    return int(text)


_STANDALONE = "-"
"""What another launcher's ``--standalone`` is translated to: no meeting, whatever address was said."""


def address(text: str) -> str:
    host, colon, port = text.rpartition(":") if ":" in text else (text, "", "")
    good = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*", host) or (colon and not host)
    if text != _STANDALONE and (not good or (colon and not (port.isdigit() and int(port) < 65535))):
        raise UsageMistake(f"--master {text}: write the address of node 0:  --master 10.0.0.1:29500")
    return text


def addresses(text: str) -> tuple[str, ...]:
    given = tuple(part.strip() for part in text.split(",") if part.strip())
    if not given or len(set(given)) < len(given):
        raise UsageMistake(f"--ips {text}: write each machine's address once:  --ips 10.0.0.1,10.0.0.2")
    return given


def joined_address(parts: Sequence[str]) -> str:
    """The address that was said in one piece or in several: torchrun has a flag for each half."""
    if not parts or _STANDALONE in parts:
        return ""
    split = [part.rpartition(":")[::2] if ":" in part else (part, "") for part in parts]
    host = next((host for host, _ in reversed(split) if host), "")
    port = next((port for _, port in reversed(split) if port), "")
    return f"{host}:{port}"
