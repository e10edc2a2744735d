"""What another host does for ``farandole.run`` at the end of a job: hands over what came of the function.

``python -m farandole.launch.function.remote``, started there through ssh, reads a line of JSON on stdin: where the
folder is. It was made when the job began, by what keeps the workers there (launch/workers).
"""

from __future__ import annotations

import base64
import json
import sys

from farandole.launch.function import call_files
from farandole.launch.processes.waiting import Loop
from farandole.launch.remote import questions
from farandole.launch.remote.messages import line_of
from farandole.launch.settings.settings import Settings
from farandole.version import __version__

MODULE = "farandole.launch.function.remote"


def main() -> None:
    """Does what it is asked for once."""
    folder = json.loads(sys.stdin.readline())["folder"]
    answer: dict[str, object] = {"version": __version__, "error": "", "files": {}}
    try:
        taken = call_files.take_all(folder)
        answer["files"] = {name: base64.b64encode(content).decode() for name, content in taken.items()}
    except OSError as problem:
        answer["error"] = str(problem)
    sys.stdout.buffer.write(line_of(answer))


class RemoteFolders:
    """The folders of one call on the other hosts of a job.

    Args:
        folder: its path here, and there.
        settings: of the job.
        timeout_s: for each connection.
    """

    def __init__(self, folder: str, settings: Settings, timeout_s: float) -> None:
        self._folder, self._settings, self._timeout_s = folder, settings, timeout_s
        self._made: list[str] = []

    def request(self) -> dict[str, str]:
        """What a host needs to make its folder."""
        return call_files.folder_request(self._folder)

    def note_made(self, host: str) -> None:
        """A host has made its folder. Of hosts with a file system in common, or of two names of one, only one has."""
        self._made.append(host)

    def take(self) -> bool:
        """Brings all results here and removes the folders there. Whether that was done on all hosts."""
        request, fields = {"folder": self._folder}, {"files": dict}
        with Loop() as loop:
            answers = questions.ask_all(
                self._settings, self._made, request, fields, self._timeout_s, loop, lambda: False, module=MODULE
            )
        whole = len(answers) == len(set(self._made))
        for host, answer in answers.items():
            try:
                files = {name: base64.b64decode(content) for name, content in answer["files"].items()}
            except (TypeError, ValueError) as error:
                self._settings.say(f"host {host}: it answers with something else than files: {error}")
                whole = False
                continue
            for name, content in files.items():
                call_files.write_file(self._folder, name, content)
        return whole


if __name__ == "__main__":
    main()
