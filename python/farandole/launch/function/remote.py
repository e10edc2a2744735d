"""What another host does for ``farandole.run``: takes the function, and at the end hands over what came of it.

``python -m farandole.launch.function.remote``, started there through ssh, reads a line of JSON on stdin: where the
folder is, and what is to be called, or nothing at the end.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Sequence

from farandole.launch.function import call_files
from farandole.launch.hosts import hosts
from farandole.launch.remote import ssh
from farandole.launch.settings.settings import Settings
from farandole.version import __version__

MODULE = "farandole.launch.function.remote"


def make(request: dict) -> bool:
    """Does what `RemoteFolders.request` asks for. Whether there was no such folder yet.

    Raises:
        OSError: there is no folder to make it in; it is somebody else's.
    """
    return call_files.make_with(request["folder"], base64.b64decode(request["call"]))


def _answer(request: dict) -> dict:
    if "call" in request:
        return {"made": make(request)}
    folder = request["folder"]
    files = {name: base64.b64encode(content).decode() for name, content in call_files.take_all(folder).items()}
    return {"files": files}


def main() -> None:
    """Does what it is asked for once."""
    request = json.loads(sys.stdin.readline())
    answer: dict = {}
    error = ""
    try:
        answer = _answer(request)
    except OSError as problem:
        error = str(problem)
    print(ssh.MARK + json.dumps({**answer, "version": __version__, "error": error}), flush=True)


class RemoteFolders:
    """The folders of one call on all other hosts of a job; on those of an elastic one, the driver has them made.

    Args:
        folder: its path here, and there.
        settings: of the job.
        timeout_s: for each connection.
    """

    def __init__(self, folder: str, settings: Settings, timeout_s: float) -> None:
        self._folder, self._settings, self._timeout_s = folder, settings, timeout_s
        self._hosts: Sequence[str] = ()
        if not settings.elastic:
            self._hosts = [each.host for each in settings.ranks_by_host() if not hosts.is_local(each.host)]
        self._made: list[str] = []

    def _ask(self, host: str, request: dict) -> dict:
        return ssh.ask(self._settings, host, request, self._timeout_s, module=MODULE)

    def request(self) -> dict:
        """What a host needs to make its folder."""
        call = base64.b64encode(call_files.read_bytes(self._folder)).decode()
        return {"folder": self._folder, "call": call}

    def note_made(self, host: str) -> None:
        """A host has made its folder. Of hosts with a file system in common, or of two names of one, only one has."""
        self._made.append(host)

    def make(self) -> bool:
        """Whether the function lies on all hosts; if not, the reason has been said."""
        request = self.request()

        def deliver(host: str) -> dict:
            answer = self._ask(host, request)
            if answer["made"]:
                self.note_made(host)
            return answer

        return not self._hosts or ssh.ask_all(self._hosts, deliver, self._settings.say) is not None

    def take(self) -> bool:
        """Brings all results here and removes the folders there. Whether that was done on all hosts."""

        def collect(host: str) -> dict:
            answer = self._ask(host, {"folder": self._folder})
            for name, content in answer["files"].items():
                call_files.write_file(self._folder, name, base64.b64decode(content))
            return answer

        return not self._made or ssh.ask_all(self._made, collect, self._settings.say) is not None


if __name__ == "__main__":
    main()
