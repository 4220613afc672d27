"""Values on a disk that many machines share, for one reader, who has the key from elsewhere.

A key is made for one text and used once: its stream (SHAKE-256) is as long as the text. A reader of the file
alone can neither read nor change it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping


def fresh_key() -> str:
    return secrets.token_hex(32)


def seal(values: Mapping[str, str], key: str) -> str:
    # escapes, so that a name with bytes that are no UTF-8 comes back as it was
    text = json.dumps(dict(values)).encode("ascii")
    body = _mixed(text, key)
    return base64.b64encode(_mac(body, key) + body).decode("ascii")


def unseal(sealed: str, key: str) -> dict[str, str]:
    """Raises ValueError for what was not sealed with the key."""
    data = base64.b64decode(sealed)
    mac, body = data[:32], data[32:]
    if not hmac.compare_digest(mac, _mac(body, key)):
        raise ValueError("it was sealed with another key")
    found = json.loads(_mixed(body, key))
    return {str(name): str(value) for name, value in found.items()}


def _mixed(data: bytes, key: str) -> bytes:
    stream = hashlib.shake_256(b"nbdist stream " + key.encode()).digest(len(data))
    return bytes(one ^ other for one, other in zip(data, stream, strict=True))


def _mac(body: bytes, key: str) -> bytes:
    return hmac.digest(b"nbdist seal " + key.encode(), body, hashlib.sha256)
