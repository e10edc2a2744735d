"""init() without a controller, with a wrong token, of another version, and without the other ranks."""

from __future__ import annotations

import hmac
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import processes
import pytest

from farandole.base import locate
from farandole.launch.processes import tokens

SCRIPT = """
        start = time.monotonic()
        try:
            hvd.init()
            print("no error")
        except ValueError as error:
            assert isinstance(error, hvd.InitializationError), type(error)
            print("seconds", time.monotonic() - start)
            print("error", error)
        """


@contextmanager
def child(command: list[str], descriptors: list[int]) -> Iterator[subprocess.Popen]:
    """A controller or agent, ended at the end."""
    process = subprocess.Popen(command, pass_fds=descriptors, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def first_line(reader: int, writer: int) -> str:
    os.close(writer)
    with os.fdopen(reader) as file:
        return file.readline().strip()


@contextmanager
def controller(key: str) -> Iterator[str]:
    """Yields its address."""
    reader, writer = os.pipe()
    key_fd = tokens.pipe_with(key)
    command = [locate.find("farandole-controller"), "--key-fd", str(key_fd), "--ready-fd", str(writer)]
    with child(command, [key_fd, writer]):
        os.close(key_fd)
        yield first_line(reader, writer)


@contextmanager
def agent(address: str, token: str, program: str | None = None) -> Iterator[str]:
    """Yields the name of its socket."""
    reader, writer = os.pipe()
    token_fd = tokens.pipe_with(token)
    command = [program or locate.find("farandole-agent"), "--job", "j", "--controller", address, "--size", "1"]
    command += ["--token-fd", str(token_fd), "--ready-fd", str(writer)]
    with child(command, [token_fd, writer]) as process:
        os.close(token_fd)
        name = first_line(reader, writer)
        assert name, (process.wait(10), process.stderr.read())
        yield name


def init_with(folder: Path, socket_name: str, **variables: str) -> str:
    """The sentence with which init() fails, in time."""
    variables = {"FARANDOLE_START_TIMEOUT": "2", "FARANDOLE_RANK": "0", "FARANDOLE_SIZE": "1", **variables}
    job = processes.python(folder, SCRIPT, FARANDOLE_AGENT_SOCKET=socket_name, FARANDOLE_JOB="j", **variables)
    assert job.wait() == 0, job.report()
    assert float(job.lines("seconds")[0]) < 3, job.report()
    (sentence,) = job.lines("error ")
    return sentence


@contextmanager
def closed_port() -> Iterator[int]:
    """Yields a port at which nobody listens, and nobody else can."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


@contextmanager
def slow_way_to(address: str, delay_s: float) -> Iterator[tuple[str, list[socket.socket]]]:
    """A relay that passes nothing on at first. Yields its address and the connections made to it."""
    connections: list[socket.socket] = []
    host, port = address.rsplit(":", 1)

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)

    def serve(near: socket.socket) -> None:
        time.sleep(delay_s)
        with suppress(OSError), socket.create_connection((host, int(port))) as far:
            threading.Thread(target=pump, args=(far, near), daemon=True).start()
            pump(near, far)

    def accept(listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connections.append(listener.accept()[0])
                threading.Thread(target=serve, args=(connections[-1],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", connections
        listener.shutdown(socket.SHUT_RDWR)
        for connection in connections:
            connection.close()


def test_controller_that_is_slow(tmp_path: Path) -> None:
    """Ten thousand agents that come at once wait for each other: who gives up has to start again behind the others."""
    with controller("key") as address, slow_way_to(address, 3) as (relay, connections):
        with agent(relay, tokens.member_token("key", "j")) as name:
            variables = {"FARANDOLE_AGENT_SOCKET": name, "FARANDOLE_RANK": "0", "FARANDOLE_SIZE": "1"}
            job = processes.python(tmp_path, "hvd.init(); hvd.shutdown()", FARANDOLE_JOB="j", **variables)
            assert job.wait() == 0, job.report()
        assert len(connections) == 1


def test_controller_that_is_not_there(tmp_path: Path) -> None:
    with closed_port() as port, agent(f"127.0.0.1:{port}", "0" * 64) as name:
        sentence = init_with(tmp_path, name)
    assert f"127.0.0.1:{port}" in sentence, sentence


def test_agents_that_are_refused_at_once() -> None:
    # A refused connection ends in gRPC's thread while the agent is still starting.
    for _ in range(8):
        with closed_port() as port, ExitStack() as stack:
            names = [stack.enter_context(agent(f"127.0.0.1:{port}", "0" * 64)) for _ in range(8)]
        assert len(set(names)) == 8


def test_wrong_token(tmp_path: Path) -> None:
    with controller("key") as address, agent(address, tokens.member_token("another key", "j")) as name:
        sentence = init_with(tmp_path, name)
    assert address in sentence and "token" in sentence, sentence


def test_expired_token(tmp_path: Path) -> None:
    token = f"{hmac.new(b'key', b'j/member/1', 'sha256').hexdigest()}.1"
    with controller("key") as address, agent(address, token) as name:
        sentence = init_with(tmp_path, name)
    assert "the token has expired, on 1970-01-01 at 00:00:01 UTC" in sentence, sentence
    assert "`farandole-controller token`" in sentence and "key and job name" not in sentence, sentence


def test_another_version(tmp_path: Path) -> None:
    program = tmp_path / "farandole-agent"
    program.write_bytes(Path(locate.find("farandole-agent")).read_bytes().replace(b"\x000.1.0\x00", b"\x009.1.0\x00"))
    program.chmod(0o755)
    with controller("key") as address, agent(address, tokens.member_token("key", "j"), str(program)) as name:
        sentence = init_with(tmp_path, name)
    assert "9.1.0" in sentence and "0.1.0" in sentence, sentence


def test_agent_that_is_not_there(tmp_path: Path) -> None:
    sentence = init_with(tmp_path, "farandole-test-no-such-socket")
    assert "farandole-test-no-such-socket" in sentence, sentence


@pytest.mark.parametrize("variables", [{"FARANDOLE_RANK": "7"}, {"FARANDOLE_SIZE": "x"}, {"FARANDOLE_SIZE": "3"}])
def test_nonsense_in_the_environment(tmp_path: Path, variables: dict[str, str]) -> None:
    with controller("key") as address, agent(address, tokens.member_token("key", "j")) as name:
        sentence = init_with(tmp_path, name, **variables)
    assert next(iter(variables.values())) in sentence, sentence


def test_init_works_after_a_failure(tmp_path: Path) -> None:
    body = """
        try:
            hvd.init()
        except hvd.InitializationError:
            print("failed", flush=True)
        os.environ["FARANDOLE_AGENT_SOCKET"] = os.environ["RIGHT_SOCKET"]
        hvd.init()
        print(hvd.allreduce(ones(1)).item())
        """
    with controller("key") as address, agent(address, tokens.member_token("key", "j")) as name:
        job = processes.python(
            tmp_path,
            body,
            FARANDOLE_AGENT_SOCKET="farandole-test-no-such-socket",
            RIGHT_SOCKET=name,
            FARANDOLE_JOB="j",
            FARANDOLE_RANK="0",
            FARANDOLE_SIZE="1",
            FARANDOLE_START_TIMEOUT="2",
        )
    assert job.wait() == 0 and job.stdout.split() == ["failed", "1.0"], job.report()


def test_rank_that_never_comes(tmp_path: Path) -> None:
    job = processes.launch(
        tmp_path,
        3,
        """
        if os.environ["FARANDOLE_RANK"] == "1":
            time.sleep(60)
        start = time.monotonic()
        try:
            hvd.init()
        finally:
            print("seconds", time.monotonic() - start, flush=True)
        """,
        "--start-timeout",
        "2",
    )
    assert job.wait() == 1, job.report()
    assert all(float(text) < 4 for text in job.lines("seconds")) and len(job.lines("seconds")) == 2
    told = [line for line in job.stderr.splitlines() if "InitializationError" in line]
    # Whoever gives up first is missing at the other.
    assert len(told) == 2 and all(re.search(r"ranks? (0, )?1(, 2)? ", line) for line in told), job.report()
    assert "Traceback" not in job.stderr


def test_a_rank_that_ends_before_init_is_told_at_once(tmp_path: Path) -> None:
    body = """
        if os.environ["FARANDOLE_RANK"] == "1":
            sys.exit(0)
        hvd.init()
        """
    started = time.monotonic()
    job = processes.launch(tmp_path, 3, body, "--start-timeout", "600")
    assert job.wait() == 1, job.report()
    assert time.monotonic() - started < 300, job.report()
    told = [line for line in job.stderr.splitlines() if "HorovodInternalError" in line]
    ended = r"rank 1 \(pid \d+ on host .*\) exited with code 0, so that nobody calls init\(\) for it"
    assert len(told) == 2 and all(re.search(ended, line) for line in told), job.report()
    blamed = [line for line in job.stderr.splitlines() if "the job has failed" in line]
    assert len(blamed) == 1 and re.search(f"the job has failed: {ended}", blamed[0]), job.report()


def test_a_rank_that_fails_before_init_ends_the_job(tmp_path: Path) -> None:
    body = """
        if os.environ["FARANDOLE_RANK"] == "1":
            sys.exit(3)
        hvd.init()
        """
    job = processes.launch(tmp_path, 3, body, "--start-timeout", "600")
    assert job.wait() == 3, job.report()
    blamed = [line for line in job.stderr.splitlines() if "failed first" in line]
    assert len(blamed) == 1 and "rank 1 " in blamed[0] and "it exited with code 3" in blamed[0], job.report()


def test_programs_without_init_may_end_in_any_order(tmp_path: Path) -> None:
    job = processes.launch(tmp_path, 3, 'time.sleep(0.2 * int(os.environ["FARANDOLE_RANK"]))')
    assert job.wait() == 0, job.report()


def test_interrupt_during_init(tmp_path: Path) -> None:
    body = """
        def interrupt():
            print("sent", time.monotonic(), flush=True)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Timer(0.5, interrupt).start()
        try:
            hvd.init()
        except KeyboardInterrupt:
            print("caught", time.monotonic(), flush=True)
        assert not hvd.is_initialized()
        """
    with controller("key") as address, agent(address, tokens.member_token("key", "j")) as name:
        job = processes.python(
            tmp_path, body, FARANDOLE_AGENT_SOCKET=name, FARANDOLE_JOB="j", FARANDOLE_RANK="0", FARANDOLE_SIZE="2"
        )
    assert job.wait() == 0, job.report()
    ended, (sent,), (caught,) = time.monotonic(), job.lines("sent"), job.lines("caught")
    assert float(caught) - float(sent) < 0.5
    # Nothing waits for the start timeout.
    assert ended - float(caught) < 15, job.report()
