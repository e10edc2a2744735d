"""The flags of ``farandole run`` and ``horovodrun``, host lists, and the configuration file."""

from __future__ import annotations

import socket
from pathlib import Path

import processes
import pytest

from farandole.launch import cli
from farandole.launch.cli import horovodrun
from farandole.launch.hosts import hosts
from farandole.launch.settings import settings, tunables
from farandole.launch.settings.config_file import BYTES_MAX


def parse(*arguments: str) -> settings.Settings:
    return cli.parse(["run", *arguments, "true"])


# Horovod's whole table: what is given, and the variable that the workers get, or None for what sets none.
TUNED = [
    (["--fusion-threshold-mb", "32"], "FUSION_THRESHOLD", str(32 << 20)),
    (["--cycle-time-ms", "2.5"], "CYCLE_TIME", "2.5"),
    (["--cache-capacity", "0"], "CACHE_CAPACITY", "0"),
    (["--hierarchical-allreduce"], "HIERARCHICAL_ALLREDUCE", "1"),
    (["--no-hierarchical-allreduce"], "HIERARCHICAL_ALLREDUCE", "0"),
    (["--hierarchical-allgather"], "HIERARCHICAL_ALLGATHER", "1"),
    (["--no-hierarchical-allgather"], "HIERARCHICAL_ALLGATHER", "0"),
    (["--torus-allreduce"], "TORUS_ALLREDUCE", "1"),
    (["--no-torus-allreduce"], "TORUS_ALLREDUCE", "0"),
    (["--autotune"], "AUTOTUNE", "1"),
    (["--no-autotune"], "AUTOTUNE", "0"),
    (["--autotune-log-file", "log"], "AUTOTUNE_LOG", "log"),
    (["--autotune-warmup-samples", "1"], "AUTOTUNE_WARMUP_SAMPLES", "1"),
    (["--autotune-steps-per-sample", "2"], "AUTOTUNE_STEPS_PER_SAMPLE", "2"),
    (["--autotune-bayes-opt-max-samples", "3"], "AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "3"),
    (["--autotune-gaussian-process-noise", "0.5"], "AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "0.5"),
    (["--timeline-filename", "t.json"], "TIMELINE", "t.json"),
    (["--timeline-mark-cycles"], "TIMELINE_MARK_CYCLES", "1"),
    (["--no-timeline-mark-cycles"], "TIMELINE_MARK_CYCLES", "0"),
    (["--no-stall-check"], "STALL_CHECK_DISABLE", "1"),
    (["--stall-check"], "STALL_CHECK_DISABLE", "0"),
    (["--stall-check-warning-time-seconds", "5"], "STALL_CHECK_TIME_SECONDS", "5"),
    (["--stall-check-shutdown-time-seconds", "6"], "STALL_SHUTDOWN_TIME_SECONDS", "6"),
    (["--mpi-threads-disable"], "MPI_THREADS_DISABLE", "1"),
    (["--no-mpi-threads-disable"], "MPI_THREADS_DISABLE", "0"),
    (["--num-nccl-streams", "2"], "NUM_NCCL_STREAMS", "2"),
    (["--thread-affinity", "3"], "THREAD_AFFINITY", "3"),
    (["--thread-affinity", "3,5"], "THREAD_AFFINITY", "3,5"),
    (["--gloo-timeout-seconds", "9"], "GLOO_TIMEOUT_SECONDS", "9"),
    (["--log-level", "debug"], "LOG_LEVEL", "DEBUG"),
    (["--log-with-timestamp"], "LOG_HIDE_TIME", "0"),
    (["--log-without-timestamp"], "LOG_HIDE_TIME", "1"),
    (["--log-hide-timestamp"], "LOG_HIDE_TIME", "1"),
    (["--no-log-hide-timestamp"], "LOG_HIDE_TIME", "0"),
]


@pytest.mark.parametrize(("given", "variable", "value"), TUNED, ids=[" ".join(row[0]) for row in TUNED])
def test_flags_that_become_variables(
    capsys: pytest.CaptureFixture, given: list[str], variable: str, value: str
) -> None:
    inherited = {f"{family}_{variable}": "inherited" for family in ("HOROVOD", "FARANDOLE")}
    environment = parse("-np", "1", *given).environment(inherited, cores=1)
    assert environment[f"HOROVOD_{variable}"] == value
    assert f"FARANDOLE_{variable}" not in environment, "it would come before what a script says under Horovod's name"
    # What does nothing says so, once, with a reason; what does something is silent.
    said = capsys.readouterr().err.splitlines()
    tunable = next(tunable for tunable in tunables.TUNABLES if tunable.variable == variable)
    expected = [f"farandole run: {tunable.flags[0]} has no effect: {tunable.without_effect}"]
    assert said == (expected if tunable.without_effect else [])


def test_variables_may_say_yes_in_words() -> None:
    given = {"HOROVOD_STALL_CHECK_DISABLE": "true", "FARANDOLE_DETERMINISTIC": "Yes", "HOROVOD_AUTOTUNE": "off"}
    environment = parse("-np", "1").environment(
        {**given, "HOROVOD_TIMELINE_MARK_CYCLES": "1", "OTHER": "true"}, cores=1
    )
    assert environment["HOROVOD_STALL_CHECK_DISABLE"] == environment["FARANDOLE_DETERMINISTIC"] == "1"
    assert environment["HOROVOD_AUTOTUNE"] == "0" and environment["HOROVOD_TIMELINE_MARK_CYCLES"] == "1"
    assert environment["OTHER"] == "true"


def test_every_tunable_is_tried() -> None:
    assert {row[1] for row in TUNED} == {tunable.variable for tunable in tunables.TUNABLES}
    assert {row[0][0] for row in TUNED} == {flag for t in tunables.TUNABLES for flag in (*t.flags, *t.off)}


@pytest.mark.parametrize("given", [["--disable-cache"], ["--mpi-args", "x"], ["--binding-args", "x"], ["--gloo"]])
def test_flags_without_effect(capsys: pytest.CaptureFixture, given: list[str]) -> None:
    assert parse("-np", "1", *given) == parse("-np", "1")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"farandole run: {given[0]} has no effect: ")


def test_help_is_silent_about_them(capsys: pytest.CaptureFixture) -> None:
    """But for one line."""
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    shown, _, last = capsys.readouterr().out.partition("Accepted from Horovod, without effect:")
    assert "--stall-check " in shown and "--no-stall-check: the opposite" in " ".join(shown.split())
    assert not {"--autotune", "--gloo", "--mpi-args"} & set(shown.split())
    assert {"--autotune,", "--gloo,", "--mpi-args,"} < set(last.split())


def test_a_timeline_needs_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit):
        parse("-np", "1", "--timeline-filename", str(tmp_path / "none" / "t.json"))
    assert (
        f"--timeline-filename {tmp_path}/none/t.json: folder {tmp_path}/none does not exist" in capsys.readouterr().err
    )
    for fine in (["--timeline-filename", "DYNAMIC"], ["--timeline-filename", "/none/t.json", "-H", "other:1"]):
        assert parse("-np", "1", *fine).tunables["TIMELINE"] == fine[1]


def test_hosts_of_lsf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LSB_MCPU_HOSTS", "a 2 b 3")
    assert parse("-np", "1").hosts == ()
    monkeypatch.setenv("LSB_JOBID", "7")
    found = parse()
    assert (found.processes, found.hosts) == (5, (hosts.Host("a", 2), hosts.Host("b", 3)))
    assert parse("-H", "c:1").hosts == (hosts.Host("c", 1),)


def test_the_other_flags() -> None:
    given = "-np 3 -H a:1,b:2 -p 2222 -i key --network-interfaces eth0,eth1 --output-filename out -prefix-timestamp"
    assert parse(*given.split(), "--tcp", "--verbose", "--dry-run", "--metrics-port", "9") == settings.Settings(
        3,
        ("true",),
        hosts=(hosts.Host("a", 1), hosts.Host("b", 2)),
        ssh_port=2222,
        ssh_identity_file="key",
        network_interfaces=("eth0", "eth1"),
        output_folder="out",
        timestamps=True,
        nccl_without_ib=True,
        verbose=True,
        dry_run=True,
        metrics_port=9,
    )
    environment = parse("-np", "1", "--tcp").environment({}, cores=1)
    assert environment["NCCL_IB_DISABLE"] == "1" and environment["FARANDOLE_TRANSPORT"] == "tcp"
    assert parse("-np", "1", "--network-interface", "lo").network_interfaces == ("lo",)
    several = parse("-np", "1", "--network-interfaces", "eth0,eth1")
    assert several.environment({}, cores=1)["NCCL_SOCKET_IFNAME"] == "=eth0,eth1"
    assert several.environment({"NCCL_SOCKET_IFNAME": "ib"}, cores=1)["NCCL_SOCKET_IFNAME"] == "ib"
    assert "NCCL_SOCKET_IFNAME" not in parse("-np", "1").environment({}, cores=1)


def test_elastic_flags() -> None:
    given = "--min-np 2 --max-np 4 --host-discovery-script ./find.sh --slots-per-host 3 --elastic-timeout 7"
    more = "--reset-limit 5 --blacklist-cooldown-range 1 60"
    assert parse("-np", "3", *given.split(), *more.split()) == settings.Settings(
        3,
        ("true",),
        min_processes=2,
        max_processes=4,
        discovery_script="./find.sh",
        slots_per_host=3,
        elastic_timeout_s=7.0,
        reset_limit=5,
        cooldown_range_s=(1.0, 60.0),
    )
    assert parse("--min-num-proc", "2", "--max-num-proc", "2").processes == 2
    assert parse("--min-num-proc", "2").elastic and not parse("-np", "2").elastic


WRONG = [
    (["-np", "2", "-H", "a:0"], "'0' is not a number of slots"),
    (["-np", "2", "--hosts=-oProxyCommand=x:2"], "is not the name of a host"),
    (["-np", "2", "-H", "a b:2"], "'a b' is not the name of a host"),
    (["-np", "2", "-H", ","], "no host"),
    (["-np", "4", "-H", "a:1,b:2"], "the hosts have slots for 3 of 4 processes: a:1, b:2"),
    (["-np", "4", "--hostfile", "/no/such/file"], "--hostfile /no/such/file: No such file"),
    (["-np", "4", "--config-file", "/no/such/file"], "--config-file /no/such/file: No such file"),
    (["-np", "1", "--cycle-time-ms", "-1"], "--cycle-time-ms: '-1' is not a number between 0 and 60000"),
    (["-np", "1", "--cycle-time-ms", "nan"], "'nan' is not a number"),
    (["-np", "1", "--autotune-gaussian-process-noise", "1.5"], "'1.5' is not a number between 0 and 1"),
    (["-np", "1", "--log-level", "loud"], "'loud' is not one of TRACE"),
    (["-np", "1", "--thread-affinity", "1,x"], "--thread-affinity: 'x'"),
    (["-np", "1", "--stall-check-warning-time-seconds", "-3"], "'-3' is not a whole number"),
    (["-np", "1", "--max-np", "2"], "--max-np belongs to elastic training"),
    (["-np", "1", "--min-np", "2"], "-np 1 is not between --min-np 2 and"),
    (["-np", "3", "--min-np", "1", "--max-np", "2"], "-np 3 is not between --min-np 1 and --max-np 2"),
    (["--min-np", "1", "--blacklist-cooldown-range", "9", "3"], "the first number is above the second"),
    (["-H", "a:1", "--host-discovery-script", "x"], "exclude each other"),
]


@pytest.mark.parametrize(("given", "sentence"), WRONG, ids=[" ".join(row[0]) for row in WRONG])
def test_wrong_values(capsys: pytest.CaptureFixture, given: list[str], sentence: str) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(*given)
    said = capsys.readouterr().err
    assert ended.value.code == 2 and said.startswith("farandole run: ") and sentence in said, said


def test_flags_that_exclude_each_other(capsys: pytest.CaptureFixture) -> None:
    for given in (["-H", "a:1", "--hostfile", "f"], ["--gloo", "--mpi"], ["--autotune", "--no-autotune"]):
        with pytest.raises(SystemExit):
            parse("-np", "1", *given)
        assert "not allowed with argument" in capsys.readouterr().err


def test_config_file(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        """
controller: gloo
params:
  fusion_threshold_mb: 32
  cache_capacity: 10
timeline:
  filename: t.json
  mark_cycles: true
stall_check:
  enabled: false
  warning_time_seconds: 7
logging:
  level: debug
  colour: red
"""
    )
    parsed = parse("-np", "1", "--config-file", str(file), "--cache-capacity", "20")
    assert parsed.tunables == {
        "FUSION_THRESHOLD": str(32 << 20),
        "CACHE_CAPACITY": "20",
        "TIMELINE": "t.json",
        "TIMELINE_MARK_CYCLES": "1",
        "STALL_CHECK_DISABLE": "1",
        "STALL_CHECK_TIME_SECONDS": "7",
        "LOG_LEVEL": "DEBUG",
    }
    said = capsys.readouterr().err.splitlines()
    assert said == [
        f"farandole run: --config-file {file}: {key} has no effect; docs/launching.md has the keys"
        for key in ("controller", "logging.colour")
    ]


@pytest.mark.parametrize("command", ["farandole run", "horovodrun"])
@pytest.mark.parametrize(("given", "hint"), [("--nmu-proc", "; did you mean --num-proc?"), ("--qqq", "")])
def test_a_flag_with_a_mistake_in_it_is_guessed(
    command: str, given: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        horovodrun.main([given, "2", "true"]) if command == "horovodrun" else parse(given, "2")
    said = capsys.readouterr().err
    assert said.startswith(f"usage: {command} ") and said.endswith(f"{command}: error: there is no {given}{hint}\n")


def test_a_key_with_a_mistake_in_it_is_guessed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("params:\n  fusion-threshold-mb: 3\n")
    assert parse("-np", "1", "--config-file", str(file)).tunables == {}
    assert capsys.readouterr().err.endswith("has no effect; did you mean params.fusion_threshold_mb?\n")


def test_the_configuration_of_the_docs_has_all_keys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = (processes.ROOT / "docs" / "launching.md").read_text()
    file = tmp_path / "config.yaml"
    file.write_text(page.split('title="config.yaml"\n')[1].split("```")[0])
    found = set(parse("-np", "1", "--config-file", str(file)).tunables)
    assert found == {tunable.variable for tunable in tunables.TUNABLES if not tunable.without_effect}
    assert capsys.readouterr().err == ""


# A list of lists of lists ..., whose text would be 10^9 words.
NESTED = "l0: &l0 [x]\n"
NESTED += "".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]\n" for n in range(1, 10))
NESTED += "params: {cycle_time_ms: *l9}"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("params: {fusion_threshold_mb: -1}", "params.fusion_threshold_mb: '-1' is not a whole number"),
        ("params: {cycle_time_ms: .nan}", "'nan' is not a number"),
        ("autotune: {enabled: perhaps}", "autotune.enabled: 'perhaps' is neither true nor false"),
        ("- a list", "sections such as 'params:'"),
        ("params: [", "is not YAML"),
        ("params: " + "[" * 5000, "nested too deeply"),
        ("params: {cycle_time_ms: 2026-13-45}", "holds a value that cannot be: month must be in 1..12"),
        ("params: {cycle_time_ms: !!int ''}", "holds a value that is not what its tag says"),
        ("params: {cycle_time_ms: !!float ''}", "holds a value that is not what its tag says"),
        ("params: {cycle_time_ms: !!bool x}", "holds a value that is not what its tag says"),
        ("params: {cycle_time_ms: !!timestamp x}", "holds a value that is not what its tag says"),
        ("params: {cycle_time_ms: [1]}", "params.cycle_time_ms is a list, not one value"),
        pytest.param(NESTED, "params.cycle_time_ms is a list, not one value", id="nested"),
        pytest.param("#" * (BYTES_MAX + 1), f"is longer than {BYTES_MAX} bytes", id="long"),
        ("params: !!python/object/apply:os.system ['touch hacked']", "is not YAML"),
    ],
)
def test_wrong_config_file(tmp_path: Path, capsys: pytest.CaptureFixture, content: str, sentence: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(content)
    with pytest.raises(SystemExit):
        parse("-np", "1", "--config-file", str(file))
    assert sentence in capsys.readouterr().err
    assert not Path("hacked").exists()


def test_host_lists(tmp_path: Path) -> None:
    assert hosts.parse_hosts("a:2, user@b ,[fe80::1]:3,a:1") == (
        hosts.Host("a", 3),
        hosts.Host("user@b", 1),
        hosts.Host("fe80::1", 3),
    )
    file = tmp_path / "hosts"
    file.write_text("# hosts\na slots=2\nb slots = 3 # slow\n\nc\n")
    assert hosts.read_hostfile(str(file)) == (hosts.Host("a", 2), hosts.Host("b", 3), hosts.Host("c", 1))
    file.write_text("a slots=2\nb max=3\n")
    with pytest.raises(ValueError, match=f"--hostfile {file}:2: 'b max=3' is not 'HOST slots=N'"):
        hosts.read_hostfile(str(file))
    file.write_text(f"a slots={'1' * 5000}\n")
    with pytest.raises(ValueError, match=f"--hostfile {file}:1: '1{{80}}' is not a number of slots between 1 and 4096"):
        hosts.read_hostfile(str(file))


def test_ranks_fill_hosts_in_order() -> None:
    named = hosts.parse_hosts("a:2,b:3,c:1")
    assert hosts.assign_ranks(named, 4) == (hosts.HostRanks("a", 0, 2), hosts.HostRanks("b", 2, 2))
    assert hosts.assign_ranks(named, 6)[2] == hosts.HostRanks("c", 5, 1)
    assert parse("-H", "a:2,b:3").processes == 5


def test_local_names() -> None:
    assert all(hosts.is_local(name) for name in ("localhost", "127.0.0.1", "127.1.2.3", "::1", socket.gethostname()))
    assert not any(hosts.is_local(name) for name in ("user@localhost", "127.example.org", "10.0.0.1", "-oX"))


def test_horovodrun(capsys: pytest.CaptureFixture) -> None:
    assert horovodrun.main(["-np", "3", "-H", "localhost:2,other:2", "--dry-run", "true", "-v"]) == 0
    here, other, way = capsys.readouterr().out.splitlines()
    assert (here, other) == ("localhost: ranks 0 to 1 run true -v", "other: rank 2 runs true -v")
    assert way.startswith("  by ssh -o BatchMode=yes") and "-- other " in way
    with pytest.raises(SystemExit) as ended:
        horovodrun.main(["-np", "2"])
    assert ended.value.code == 2 and "horovodrun: no command given" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        horovodrun.main(["-v"])
    assert ended.value.code == 0


def test_check_build(capsys: pytest.CaptureFixture) -> None:
    assert horovodrun.main(["--check-build"]) == 0
    said = capsys.readouterr().out
    assert "[X] PyTorch: torch 2" in said and "[X] shared memory" in said and "[ ] MXNet: " in said
    assert "] CUDA: " in said and "] NCCL: " in said


def test_flags_of_both_commands_are_the_same() -> None:
    def options(parser: object) -> set[str]:
        return {option for action in parser._actions for option in action.option_strings}

    run = cli.make_parser()._subparsers._group_actions[0].choices["run"]
    assert options(horovodrun.make_parser()) - options(run) == {"-v", "--version"}
