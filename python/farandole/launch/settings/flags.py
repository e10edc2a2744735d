"""The flags of ``farandole run`` and ``horovodrun``, and the settings that follow from them."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable

from farandole.launch.hosts import hosts
from farandole.launch.settings import config_file, tunables
from farandole.launch.settings.settings import Settings

PROCESSES_MAX = 65536
# Accepted as Horovod has them: (spellings, has a value, why it does nothing).
WITHOUT_EFFECT = (
    (("--disable-cache",), False, "nothing about hosts is kept from one run to the next"),
    (("--mpi-args",), True, "mpirun is not used; put options of the connection into ~/.ssh/config"),
    (("--binding-args",), True, "processes are not bound; taskset or numactl before the command does that"),
    (("--gloo",), False, "there is one launcher and one controller"),
    (("--mpi",), False, "there is one launcher and one controller; `mpirun python train.py` works without a launcher"),
    (("--jsrun",), False, "there is one launcher and one controller; `jsrun python train.py` works without a launcher"),
)


class UsageError(Exception):
    """The command line, or what it names, is wrong; the text is one sentence."""


def number(what: str, low: int, high: int) -> Callable[[str], int]:
    """A type of argparse: digits that make a number in these bounds."""

    def convert(given: str) -> int:
        if not given.isdecimal() or not low <= int(given) <= high:
            raise argparse.ArgumentTypeError(f"{given!r} is not {what} between {low} and {high}")
        return int(given)

    return convert


count = number("a number of processes", 1, PROCESSES_MAX)
_port = number("a port", 1, 65535)


def _name(given: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.][A-Za-z0-9_.-]{0,63}", given):
        raise argparse.ArgumentTypeError(f"{given!r} is not a name of at most 64 letters, digits and _ . -")
    return given


def _positive(given: str) -> float:
    try:
        value = float(given)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{given!r} is not a positive number")
    return value


def add_listen(parser: argparse.ArgumentParser) -> None:
    """Where `farandole dashboard` serves its page."""
    parser.add_argument(
        "--listen",
        default="127.0.0.1:0",
        metavar="HOST:PORT",
        help="where the page is served (127.0.0.1:0, a free port); beyond loopback only with --insecure: without TLS",
    )


def add_arguments(run: argparse.ArgumentParser) -> None:
    """All flags and the command."""
    run.add_argument("-np", "--num-proc", dest="processes", type=count, metavar="N", help="number of processes")
    run.add_argument("-cb", "--check-build", action="store_true", help="show what is installed or missing, and why")
    run.add_argument("--dry-run", action="store_true", help="only print what would be started, and where")
    run.add_argument("--config-file", metavar="FILE", help="settings in YAML, in Horovod's form; flags win")
    run.add_argument(
        "--start-timeout",
        type=_positive,
        metavar="SECONDS",
        help="how long init() waits for the other processes, and the launcher for remote hosts (30, or "
        "FARANDOLE_START_TIMEOUT, HOROVOD_START_TIMEOUT)",
    )
    run.add_argument(
        "--metrics-port",
        type=_port,
        metavar="PORT",
        help="serve metrics for Prometheus at http://127.0.0.1:PORT/metrics, without a token",
    )
    run.add_argument("--name", dest="job_name", type=_name, metavar="NAME", help="begins the job's name in `status`")
    run.add_argument(
        "--stdin",
        dest="stdin_rank",
        type=number("a rank", 0, PROCESSES_MAX - 1),
        metavar="RANK",
        help="this rank, on this host, reads your terminal and writes to it alone: for breakpoint()",
    )
    run.add_argument(
        "--max-restarts",
        type=number("a number of restarts", 0, 10**6),
        default=0,
        metavar="N",
        help="start a job that has failed again, from scratch, at most N times (0)",
    )
    run.add_argument("--verbose", action="store_true", help="tell what the launcher, the agent and the controller do")
    _add_output(run)
    _add_hosts(run)
    _add_elastic(run)
    tunables.add_arguments(run)
    chosen = run.add_mutually_exclusive_group()
    for flags, valued, _ in WITHOUT_EFFECT:
        action = "store" if valued else "store_true"
        group = chosen if flags[0] in ("--gloo", "--mpi", "--jsrun") else run
        group.add_argument(*flags, dest=f"ignored_{flags[0]}", action=action, help=argparse.SUPPRESS)
    silent = [flags[0] for flags, _, _ in WITHOUT_EFFECT] + [t.flags[0] for t in tunables.TUNABLES if t.without_effect]
    run.epilog = f"Accepted from Horovod, without effect: {', '.join(silent)}. Each says why when it is given."
    run.add_argument("command", nargs=argparse.REMAINDER, help="what to run, with its arguments")


def _add_output(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("output")
    group.add_argument("--no-prefix-output", action="store_true", help="do not put the rank before lines of output")
    group.add_argument(
        "-prefix-timestamp",
        "--prefix-output-with-timestamp",
        dest="timestamps",
        action="store_true",
        help="put the time before lines of output",
    )
    group.add_argument("--output-filename", metavar="DIR", help="write output also to DIR/rank.N/stdout and stderr")


def _add_hosts(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("hosts")
    which = group.add_mutually_exclusive_group()
    which.add_argument("-H", "--hosts", metavar="HOST:SLOTS,...", help="hosts, and how many processes each")
    which.add_argument("-hostfile", "--hostfile", metavar="FILE", help="the same, in lines 'HOST slots=N'")
    group.add_argument("-p", "--ssh-port", type=_port, metavar="PORT", help="ssh port of the other hosts")
    group.add_argument("-i", "--ssh-identity-file", metavar="FILE", help="private key for ssh")
    group.add_argument(
        "--network-interfaces",
        "--network-interface",
        metavar="NAME,...",
        help="network interfaces for traffic between hosts; each host uses the first one that it has",
    )
    group.add_argument("--tcp", action="store_true", help="no RDMA: set FARANDOLE_TRANSPORT=tcp, and NCCL_IB_DISABLE=1")


def _add_elastic(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group("elastic training")
    fewest, most = "fewest processes; makes the job elastic", "most processes"
    group.add_argument("--min-np", "--min-num-proc", dest="min_processes", type=count, metavar="N", help=fewest)
    group.add_argument("--max-np", "--max-num-proc", dest="max_processes", type=count, metavar="N", help=most)
    slots = number("a number of slots", 1, hosts.SLOTS_MAX)
    group.add_argument("--slots-per-host", type=slots, metavar="N", help="for hosts that are printed without it (1)")
    group.add_argument("--host-discovery-script", metavar="FILE", help="prints lines 'HOST:SLOTS' or 'HOST'")
    patience = "how long to wait for enough slots (600)"
    group.add_argument("--elastic-timeout", type=_positive, metavar="SECONDS", help=patience)
    resets = number("a number of resets", 0, 10**9)
    group.add_argument("--reset-limit", type=resets, metavar="N", help="end after N changes of the processes (never)")
    group.add_argument(
        "--blacklist-cooldown-range",
        nargs=2,
        type=_positive,
        metavar=("MIN", "MAX"),
        help="seconds after which a failed host may come back; each failure doubles them",
    )


def settings_of(parsed: argparse.Namespace, name: str) -> Settings:
    """The settings of a run; prints a warning for each flag without effect.

    Raises:
        UsageError: something is wrong or missing.
    """
    try:
        return _settings_of(parsed, name)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _settings_of(parsed: argparse.Namespace, name: str) -> Settings:
    command = parsed.command[1:] if parsed.command[:1] == ["--"] else parsed.command
    if not command:
        raise UsageError(f"no command given: {name} -np 2 train.py")
    if _is_script(command[0]):
        command = [sys.executable, *command]
    _check_command(command[0])
    found: tuple[hosts.Host, ...] = ()
    if parsed.hosts is not None:
        found = hosts.parse_hosts(parsed.hosts)
    elif parsed.hostfile is not None:
        found = hosts.read_hostfile(parsed.hostfile)
    elif parsed.host_discovery_script is None:
        found = hosts.of_lsf(os.environ)
    cooldown = parsed.blacklist_cooldown_range
    settings = Settings(
        processes=_processes(parsed, found),
        command=tuple(command),
        hosts=found,
        start_timeout_s=parsed.start_timeout,
        tunables=_tunables(parsed, name),
        network_interfaces=tuple(part for part in (parsed.network_interfaces or "").split(",") if part),
        ssh_port=parsed.ssh_port,
        ssh_identity_file=parsed.ssh_identity_file,
        output_folder=parsed.output_filename,
        timestamps=parsed.timestamps,
        nccl_without_ib=parsed.tcp,
        metrics_port=parsed.metrics_port,
        prefix_output=not parsed.no_prefix_output,
        prefix_as_horovod=name == "horovodrun",
        verbose=parsed.verbose,
        dry_run=parsed.dry_run,
        name=name,
        min_processes=parsed.min_processes,
        max_processes=parsed.max_processes,
        discovery_script=parsed.host_discovery_script,
        slots_per_host=parsed.slots_per_host,
        elastic_timeout_s=parsed.elastic_timeout,
        max_restarts=parsed.max_restarts,
        job_name=parsed.job_name,
        stdin_rank=parsed.stdin_rank,
        reset_limit=parsed.reset_limit,
        cooldown_range_s=None if cooldown is None else tuple(cooldown),
    )
    _check(settings)
    for flags, _, reason in WITHOUT_EFFECT:
        if getattr(parsed, f"ignored_{flags[0]}"):
            _warn(name, f"{flags[0]} has no effect: {reason}")
    return settings


def _is_script(program: str) -> bool:
    """Whether it is a Python file that is no command itself."""
    return program.endswith(".py") and os.path.isfile(program) and shutil.which(program) is None


def _check_command(program: str) -> None:
    if shutil.which(program) is None:
        place = "is not an executable file" if os.sep in program else "was not found on the PATH"
        raise UsageError(f"command {program!r} {place}")


def _processes(parsed: argparse.Namespace, found: tuple[hosts.Host, ...]) -> int:
    for number in (parsed.processes, parsed.min_processes):
        if number is not None:
            return number
    if parsed.host_discovery_script is not None:
        return 1
    if not found:
        raise UsageError("the number of processes is missing: -np/--num-proc N, or hosts with their slots (-H)")
    return min(PROCESSES_MAX, sum(host.slots for host in found))


def _check(settings: Settings) -> None:
    low, high = settings.min_processes or 1, settings.max_processes or PROCESSES_MAX
    if not low <= settings.processes <= high:
        raise UsageError(f"-np {settings.processes} is not between --min-np {low} and --max-np {high}")
    if settings.cooldown_range_s is not None and settings.cooldown_range_s[0] > settings.cooldown_range_s[1]:
        raise UsageError("--blacklist-cooldown-range: the first number is above the second")
    if settings.discovery_script is not None and settings.hosts:
        raise UsageError("--host-discovery-script and -H or --hostfile exclude each other")
    if not settings.elastic:
        of_elastic = (
            ("--max-np", settings.max_processes),
            ("--slots-per-host", settings.slots_per_host),
            ("--elastic-timeout", settings.elastic_timeout_s),
            ("--reset-limit", settings.reset_limit),
            ("--blacklist-cooldown-range", settings.cooldown_range_s),
        )
        for flag, value in of_elastic:
            if value is not None:
                raise UsageError(
                    f"{flag} belongs to elastic training, which --min-np or --host-discovery-script begins"
                )
        settings.ranks_by_host()
    _check_timeline(settings)
    if settings.stdin_rank is not None:
        _check_stdin(settings, settings.stdin_rank)


def _check_timeline(settings: Settings) -> None:
    """Rank 0 writes it, minutes later; only a folder of this host can be looked at."""
    path = settings.tunables.get("TIMELINE", "DYNAMIC")
    first = settings.hosts[0].name if settings.hosts else "localhost"
    folder = os.path.dirname(path) or "."
    if path != "DYNAMIC" and hosts.is_local(first) and not os.access(folder, os.W_OK | os.X_OK):
        why = "cannot be written" if os.path.isdir(folder) else "does not exist"
        raise UsageError(f"--timeline-filename {path}: folder {folder} {why}")


def _check_stdin(settings: Settings, rank: int) -> None:
    if settings.elastic:
        raise UsageError(f"--stdin {rank}: an elastic job has no fixed ranks")
    if rank >= settings.processes:
        raise UsageError(f"--stdin {rank}: the last rank is {settings.processes - 1}")
    here = next(each for each in settings.ranks_by_host() if rank < each.first_rank + each.local_size)
    if not hosts.is_local(here.host):
        raise UsageError(f"--stdin {rank}: this rank runs on {here.host}, not on this host")


def _tunables(parsed: argparse.Namespace, name: str) -> dict[str, str]:
    in_file: dict[str, object] = {}
    if parsed.config_file is not None:
        in_file, unknown = config_file.read(parsed.config_file)
        for key in unknown:
            hint = did_you_mean(key, [tunable.key for tunable in tunables.TUNABLES], 0.8)
            hint = hint or "docs/launching.md has the keys"
            _warn(name, f"--config-file {parsed.config_file}: {key} has no effect; {hint}")
    result = {}
    for tunable in tunables.TUNABLES:
        given = getattr(parsed, tunable.dest)
        value, where = given, tunable.flags[0]
        if given is None:
            value, where = in_file.get(tunable.dest), f"--config-file {parsed.config_file}: {tunable.key}"
        if value is None:
            continue
        try:
            result[tunable.variable] = tunable.convert(value)
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from None
        if tunable.without_effect:
            _warn(name, f"{where} has no effect: {tunable.without_effect}")
    return result


def did_you_mean(unknown: str, known: Iterable[str], likeness: float = 0.6) -> str:
    """A question that names the known word most like this one; "" if none is `likeness` (0 to 1) like it."""
    import difflib  # takes a while, and is seldom needed

    near = difflib.get_close_matches(unknown, known, 1, likeness)
    return f"did you mean {near[0]}?" if near else ""


def _warn(name: str, sentence: str) -> None:
    print(f"{name}: {sentence}", file=sys.stderr, flush=True)
