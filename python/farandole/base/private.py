"""What no other user of the host has: a secret, from which names follow that they cannot guess, and private folders."""

from __future__ import annotations

import os
import secrets
import stat

SECRET_CHARACTERS = 64


def _read(path: str) -> str:
    """What is there; empty unless nobody else can have read or written it."""
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), encoding="ascii") as file:
        found = os.fstat(file.fileno())
        ours = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
        text = file.read(SECRET_CHARACTERS + 1) if ours else ""
    return text if len(text) == SECRET_CHARACTERS else ""


def _make(path: str) -> None:
    """Writes a new one; the first of several processes counts."""
    draft = f"{path}.{secrets.token_hex(8)}"
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(secrets.token_hex(SECRET_CHARACTERS // 2))
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)


def user_secret() -> str:
    """The same for all processes of this user with this cache folder (XDG_CACHE_HOME, else ~/.cache).

    Returns:
        64 characters; empty if this user has no folder of its own that can be written.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.path.join(cache, "farandole")
    path = os.path.join(folder, "secret")
    try:
        if not os.path.exists(path):
            # Root in the home of somebody else leaves nothing there.
            if os.stat(cache if os.path.isdir(cache) else os.path.dirname(cache)).st_uid != os.geteuid():
                return ""
            os.makedirs(folder, mode=0o700, exist_ok=True)
            _make(path)
        return _read(path)
    except (OSError, ValueError):
        return ""


def is_private(path: str) -> bool:
    """Whether it is a folder, not a link to one, that is ours and that nobody else may look into."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
