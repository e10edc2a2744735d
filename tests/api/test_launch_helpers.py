"""The helpers of a launcher: commands end with whoever runs them; addresses and ports; flags as attributes."""

from __future__ import annotations

import io
import socket
import sys
import threading
from pathlib import Path

import processes
import pytest

from farandole.launch.cli import horovodrun
from farandole.launch.helpers import arguments, network, safe_shell_exec

BODY = """
from farandole.launch.helpers import safe_shell_exec
safe_shell_exec.execute("sleep 1000 & echo begun; sleep 1000; true")
"""

LEFT = """
import os
print([number for number in range(3, 256) if os.path.exists(f"/proc/self/fd/{number}")])
print(open(f"/proc/self/task/{os.getpid()}/children").read().split())
"""


def test_a_killed_caller_takes_its_command_along(tmp_path: Path) -> None:
    """`running` looks for what is left."""
    with processes.running([sys.executable, "-c", BODY], tmp_path) as job:
        job.wait_for(lambda: job.lines("begun") and len(processes.marked(job.mark)) > 3, "the command")
        job.process.kill()
        job.wait()


def test_what_a_command_leaves_behind_stays(tmp_path: Path) -> None:
    code = safe_shell_exec.execute(f"(sleep 0.3; touch {tmp_path}/after) >/dev/null 2>&1 & exit 4")
    assert code == 4
    processes.Job(None, tmp_path / "none", tmp_path / "none").wait_for((tmp_path / "after").exists, "what was left")


def test_a_command_has_nothing_of_its_watcher() -> None:
    """It is no job or child that the command could wait for; the command has no more arguments and descriptors."""
    lines, end = io.StringIO(), threading.Event()
    timer = threading.Timer(30.0, end.set)
    timer.start()
    command = f"sleep 0.1 & wait; echo $# $0; exec {sys.executable} -S -c '{LEFT}'"
    code = safe_shell_exec.execute(command, stdout=lines, events=[end])
    timer.cancel()
    assert (code, lines.getvalue()) == (0, "0 /bin/sh\n[]\n[]\n")


def test_this_host_is_told_from_others() -> None:
    nobody = "x" * 64  # too long for a name, so that nobody is asked
    names = [nobody, "localhost", "192.0.2.1", "127.0.0.7"]
    assert network.filter_local_addresses(names) == [nobody, "192.0.2.1"]
    assert network.filter_local_addresses([]) == []
    assert network.resolve_host_address("127.0.0.7") == "127.0.0.7"
    assert network.resolve_host_address(nobody) is None
    assert network.get_local_host_addresses() >= {"127.0.0.1"}
    assert network.get_local_intfs() == network.get_local_intfs("lo") == {"lo"}
    assert network.get_local_intfs("none") == set()
    assert network.get_driver_ip(["none", "lo"]) == "127.0.0.1"
    with pytest.raises(RuntimeError, match="interfaces none has an address"):
        network.get_driver_ip({"none"})


def test_a_port_that_does_not_do_is_passed_over() -> None:
    tried: list[int] = []
    bad = 2

    def make(address: tuple[str, int]) -> socket.socket:
        tried.append(address[1])
        if len(tried) <= bad:
            raise OSError("taken")
        return socket.create_server(address)

    server, port = network.find_port(make)
    with server:
        assert server.getsockname()[1] == port == tried[2]
    bad = 1 << 20
    with pytest.raises(OSError, match=f"none of {network.PORTS_MAX} ports could be used; the last one: taken"):
        network.find_port(make)
    assert len(tried) == 3 + network.PORTS_MAX


FLAGS = (
    "-np 2 --min-np 1 --blacklist-cooldown-range 1 2 --network-interfaces eth0,eth1 --mpi-args=-x --cache-capacity 0 "
    "--reset-limit 0 --no-autotune --stall-check --log-hide-timestamp --verbose --gloo --tcp program --verbose"
)


def test_flags_become_attributes_and_flags_again(monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[list[str]] = []
    monkeypatch.setattr(horovodrun, "main", lambda given: words.append(given) or 7)
    args = arguments.parse(FLAGS.split())
    assert (args.num_proc, args.min_num_proc, args.max_num_proc, args.hosts) == (2, 1, None, None)
    assert (args.nics, args.cooldown_range, args.mpi_args) == (["eth0", "eth1"], [1, 2], "-x")
    assert (args.autotune, args.no_stall_check, args.log_with_timestamp) == (False, False, False)
    assert (args.use_gloo, args.use_mpi, args.tcp_flag, args.verbose) == (True, False, True, True)
    assert (args.cache_capacity, args.reset_limit, args.command) == ("0", 0, ["program", "--verbose"])
    assert (args.run_func, args.executable) == (None, None)
    assert arguments.run(args) == 7
    parser = horovodrun.make_parser()
    assert parser.parse_args(words[0]) == parser.parse_args(FLAGS.split())


def test_flags_that_are_wrong_end_the_process(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        arguments.parse(["--nonsense", "program"])
    assert "there is no --nonsense" in capsys.readouterr().err
