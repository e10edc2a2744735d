"""What another host does for ``farandole.run``: takes the function, and at the end hands over what came of it.

``python -m farandole.launch.function_remote``, started there through ssh, reads a line of JSON on stdin: where the
folder is, and what is to be called, or nothing at the end.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Sequence

from farandole.launch import function_files, hosts, ssh
from farandole.launch.settings import Settings
from farandole.version import __version__

MODULE = "farandole.launch.function_remote"


def _answer(request: dict) -> dict:
    place = request["place"]
    if "call" in request:
        return {"made": function_files.make_with(place, base64.b64decode(request["call"]))}
    files = {name: base64.b64encode(content).decode() for name, content in function_files.take_all(place).items()}
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
    """The folders of one call on all other hosts of a job.

    Args:
        place: of the folder here, and there.
        settings: of the job.
        timeout_s: for each connection.
        say: prints a sentence.
    """

    def __init__(self, place: str, settings: Settings, timeout_s: float, say: Callable[[str], None]) -> None:
        self._place, self._settings, self._timeout_s, self._say = place, settings, timeout_s, say
        self._hosts: Sequence[str] = ()
        if not settings.elastic:
            self._hosts = [each.host for each in settings.places() if not hosts.is_local(each.host)]
        self._made: list[str] = []

    def _ask(self, host: str, **request: str) -> dict:
        request["place"] = self._place
        return ssh.ask(self._settings, host, request, self._timeout_s, module=MODULE)

    def make(self) -> bool:
        """Whether the function lies on all hosts; if not, the reason has been said."""
        call = base64.b64encode(function_files.read_bytes(self._place)).decode()

        def deliver(host: str) -> dict:
            answer = self._ask(host, call=call)
            # Of hosts with a file system in common, or of two names of one, only one has made it.
            if answer["made"]:
                self._made.append(host)
            return answer

        return not self._hosts or ssh.ask_all(self._hosts, deliver, self._say) is not None

    def take(self) -> bool:
        """Brings all results here and removes the folders there. Whether that was done on all hosts."""

        def collect(host: str) -> dict:
            answer = self._ask(host)
            for name, content in answer["files"].items():
                function_files.write_file(self._place, name, base64.b64decode(content))
            return answer

        return not self._made or ssh.ask_all(self._made, collect, self._say) is not None


if __name__ == "__main__":
    main()
