"""Keys and digests, as ``horovod.runner.common.util.secret`` has them."""

from __future__ import annotations

import hashlib
import hmac
import secrets

SECRET_LENGTH = 32
"""Bytes of a key."""
DIGEST_LENGTH = 32
"""Bytes of a digest."""


def make_secret_key() -> bytes:
    """A new random key."""
    return secrets.token_bytes(SECRET_LENGTH)


def compute_digest(key: bytes, message: bytes) -> bytes:
    """HMAC-SHA256 of `message`."""
    return hmac.digest(key, message, hashlib.sha256)


def check_digest(key: bytes, message: bytes, digest: bytes) -> bool:
    """Whether `digest` is that of `message`, in a time that does not depend on where they differ."""
    return hmac.compare_digest(compute_digest(key, message), digest)
