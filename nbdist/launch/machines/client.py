"""One question over a line (``link``), and the answer to it, for who can wait."""

from __future__ import annotations

import json
import select
import socket
import time

from nbdist.errors import LaunchError
from nbdist.launch.machines.link import Link, LinkClosed, WrongKey
from nbdist.launch.machines.messages import Message

_PIECE = 16_000
"""Characters of a question that are said at once: a line takes no message of any length."""


def call(address: str, port: int, key: str, question: Message, *, limit: float = 5.0) -> Message:
    """What the other end answers. Raises LaunchError when it does not within ``limit`` seconds."""
    deadline = time.monotonic() + limit
    try:
        link = Link(socket.create_connection((address, port), limit), key, caller=True)
    except OSError as error:
        raise LaunchError(f"{address}:{port} cannot be reached: {error.strerror or error}") from None
    try:
        for message in pieces(question):
            link.send(message)
        while (left := deadline - time.monotonic()) > 0:
            select.select([link], [link] if link.pending else [], [], left)
            link.flush()
            for answer in link.receive():
                return answer
    except (LinkClosed, WrongKey) as error:
        raise LaunchError(f"{address}:{port} does not answer: {error}") from None
    finally:
        link.close()
    raise LaunchError(f"{address}:{port} did not answer in {limit:g} s")


def pieces(question: Message) -> list[Message]:
    """A question as messages of a size that a line takes."""
    text = json.dumps(question)
    starts = range(0, len(text), _PIECE)
    return [{"piece": text[at : at + _PIECE], "last": at + _PIECE >= len(text)} for at in starts]
