"""Asks a controller for the status of a job, by way of the controller's own program: the package brings no gRPC."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from farandole.base import locate
from farandole.launch.processes.child import pipe
from farandole.launch.processes.tokens import pipe_with

# Exit codes of `farandole-controller query`.
USAGE, NO_ANSWER, REFUSED, NO_JOB = 2, 3, 4, 5


class QueryError(Exception):
    """A query has no answer. `code` is the program's exit code, the text one sentence."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass(frozen=True)
class Target:
    """Whom to ask, and about what. Either `token` or `token_file` is set.

    Attributes:
        job: name of the job, or NAMESPACE.* for `list`.
        controller: HOST:PORT.
        token: of an observer or a member.
        token_file: a file of mode 0600 that holds it.
        tls_ca: a file with the certificates that may have signed the controller's; "": no TLS.
        tls_cert, tls_key: files with the certificate of this end and its key, where the controller wants one; "": none.
        certificate: the controller's own, in PEM, which then need not be for its address; "": that of tls_ca, or none.
        insecure: the token may go beyond loopback without TLS.
    """

    job: str
    controller: str
    token: str = ""
    token_file: str = ""
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    certificate: str = ""
    insecure: bool = False

    def _start(self, *more: str) -> subprocess.Popen[str]:
        command = [locate.find("farandole-controller"), "query", "--controller", self.controller, "--job", self.job]
        command += ["--tls-ca", self.tls_ca] if self.tls_ca else []
        command += ["--tls-cert", self.tls_cert, "--tls-key", self.tls_key] if self.tls_cert else []
        command += ["--insecure"] if self.insecure else []
        descriptors = [pipe_with(self.token)] if self.token else []
        command += ["--token-fd", str(descriptors[0])] if descriptors else ["--token-file", self.token_file]
        if self.certificate:
            descriptors.append(pipe_with(self.certificate))
            command += ["--tls-pinned", f"/dev/fd/{descriptors[-1]}"]
        try:
            return subprocess.Popen(
                [*command, *more],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                pass_fds=descriptors,
            )
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def get(self, timeout_s: float = 3.0) -> dict[str, Any]:
        """The job's status: JobStatus of proto/farandole/v1/status.proto as protobuf maps it to JSON.

        Names are lowerCamelCase, numbers of 64 bits strings, enums their names; a field with its default is there, too.

        Raises:
            QueryError: no answer within `timeout_s`, refused, or no such job.
            FileNotFoundError: farandole-controller is not there.
        """
        return json.loads(self._ask(timeout_s))

    def list(self, timeout_s: float = 3.0) -> list[dict[str, Any]]:
        """The jobs of the namespace, by name: a JobSummary each, as `get` has it. Raises as that does."""
        return [json.loads(line) for line in self._ask(timeout_s).splitlines()]

    def _ask(self, timeout_s: float) -> str:
        process = self._start("--timeout-ms", str(int(timeout_s * 1000)))
        out, err = process.communicate()
        if process.returncode:
            raise _error(process.returncode, err)
        return out

    def watch(self, per_second: int, timeout_s: float = 3.0) -> Iterator[dict[str, Any]]:
        """The job's status now and on each change. As `get` otherwise; ends with an exception, or with its reader."""
        process = self._start("--timeout-ms", str(int(timeout_s * 1000)), "--watch", str(per_second))
        out, err = pipe(process.stdout), pipe(process.stderr)
        try:
            for line in out:
                yield json.loads(line)
            said = err.read()
            raise _error(process.wait(), said)
        finally:
            process.kill()
            process.wait()
            out.close()
            err.close()


def _error(code: int, err: str) -> QueryError:
    lines = err.strip().splitlines() or ["no reason given"]
    return QueryError(code, lines[0].partition("farandole-controller query: ")[2] or lines[0])
