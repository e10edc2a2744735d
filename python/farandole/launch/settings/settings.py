"""What one run was asked to do, and the environment that follows from it."""

from __future__ import annotations

import os
import select
from collections.abc import Mapping
from dataclasses import dataclass, field

from farandole.base.variables import spelled_as_words, start_timeout_s
from farandole.launch.hosts.hosts import Host, HostRanks, assign_ranks

# "Mon Nov 23 16:27:01 2026 "
TIME_WIDTH = 25
# For a reader of stderr to make room for a sentence.
_SAY_MS = 1000
# Of a worker's lines, however narrow the terminal.
COLUMNS_LEAST = 20


@dataclass(frozen=True)
class Settings:
    """The command line of ``farandole run``, checked. None: not given.

    Attributes:
        processes: how many to start; with elastic training, at first.
        command: what they run.
        hosts: where, in this order; empty: here.
        start_timeout_s: how long init() and the checks of remote hosts may take.
        tunables: values of variables, by their names without FARANDOLE_ and HOROVOD_.
        network_interfaces: names of those that everything uses; empty: any.
        ssh_port: of all remote hosts; None: what ssh's configuration says.
        ssh_identity_file: the private key; None: what ssh's configuration says.
        output_folder: where the ranks' output goes too, a folder ``rank.N`` each; None: nowhere.
        timestamps: a time stands before every line of output.
        nccl_without_ib: NCCL_IB_DISABLE=1 and FARANDOLE_TRANSPORT=tcp for the workers.
        metrics_port: where the controller answers Prometheus; None: nowhere.
        prefix_output: the rank stands before every line of output.
        prefix_as_horovod: as ``[0]<stdout>:``, which scripts may look for.
        verbose: the launcher, the agents and the controller tell what they do.
        dry_run: only print what would be started.
        name: of the command line, before messages.
        min_processes, max_processes: bounds of an elastic job; None: not elastic, or no upper bound.
        discovery_script: prints the hosts of an elastic job; None: none.
        slots_per_host: of hosts that it prints without a number; None: 1.
        elastic_timeout_s: how long an elastic job waits for enough slots; None: 600, or the variable.
        max_restarts: a job that has failed is started again so often.
        job_name: begins the job's name, which `farandole status` shows; None: "run".
        stdin_rank: reads what the launcher could read, from its terminal above all, and writes there; None: none.
        reset_limit: an elastic job ends after this many resets; None: never for that.
        cooldown_range_s: shortest and longest time for which a failed host of an elastic job is left alone; None: ever.
    """

    processes: int
    command: tuple[str, ...]
    hosts: tuple[Host, ...] = ()
    start_timeout_s: float | None = None
    tunables: Mapping[str, str] = field(default_factory=dict)
    network_interfaces: tuple[str, ...] = ()
    ssh_port: int | None = None
    ssh_identity_file: str | None = None
    output_folder: str | None = None
    timestamps: bool = False
    nccl_without_ib: bool = False
    metrics_port: int | None = None
    prefix_output: bool = True
    prefix_as_horovod: bool = False
    verbose: bool = False
    dry_run: bool = False
    name: str = "farandole run"
    min_processes: int | None = None
    max_processes: int | None = None
    discovery_script: str | None = None
    slots_per_host: int | None = None
    elastic_timeout_s: float | None = None
    max_restarts: int = 0
    job_name: str | None = None
    stdin_rank: int | None = None
    reset_limit: int | None = None
    cooldown_range_s: tuple[float, float] | None = None

    def say(self, sentence: str) -> None:
        """One line on stderr, if that can be written soon: neither a job nor its end waits for a reader."""
        line = f"{self.name}: {sentence}\n".encode(errors="surrogateescape")
        try:
            stderr = select.poll()
            stderr.register(2, select.POLLOUT)
            # A pipe that is ready takes a piece of this size without waiting.
            while line and stderr.poll(_SAY_MS):
                line = line[os.write(2, line[: select.PIPE_BUF]) :]
        except OSError:
            pass

    @property
    def elastic(self) -> bool:
        """Whether ranks may come and go."""
        return self.min_processes is not None or self.discovery_script is not None

    def remote_timeout_s(self, environment: Mapping[str, str]) -> float:
        """How long the checks of remote hosts may take."""
        return self.start_timeout_s or start_timeout_s(environment)

    def ranks_by_host(self) -> tuple[HostRanks, ...]:
        """Which ranks run on which host. Raises ValueError if the hosts have not enough slots."""
        return assign_ranks(self.hosts or (Host("localhost", self.processes),), self.processes)

    @property
    def most_on_a_host(self) -> int:
        """Processes that share the cores of a host, as far as that is known before the job begins."""
        return self.processes if self.elastic else max(each.local_size for each in self.ranks_by_host())

    @property
    def descriptors(self) -> int:
        """About so many the launcher needs: two pipes and two files for each process, four pipes for each host."""
        per_process = 2 if self.output_folder is None else 4
        return per_process * self.processes + 4 * len(self.hosts)

    def prefix(self, worker: str, stream: str) -> str:
        """What stands before the lines of a worker: a rank, or a slot. The time comes before it."""
        if not self.prefix_output:
            return ""
        return f"[{worker}]<{stream}>:" if self.prefix_as_horovod else f"[{worker}] "

    def _prefix_width(self) -> int:
        """That of the longest."""
        last = str(max(self.processes, self.max_processes or 0) - 1)
        host = max((len(host.name) for host in self.hosts), default=len("localhost"))
        worker = f"{'h' * host}:{last}" if self.elastic else last
        return len(self.prefix(worker, "stderr")) + (TIME_WIDTH if self.timestamps else 0)

    def environment(
        self, inherited: Mapping[str, str], cores: int, terminal: os.terminal_size | None = None
    ) -> dict[str, str]:
        """Variables of the agent, the controller and the workers, without what the agent adds for each worker.

        Args:
            inherited: the launcher's.
            cores: that processes of this host share.
            terminal: on which lines appear, each with what stands before it; None: on none.
        """
        result = {name: value for name, value in inherited.items() if name not in _OF_ANOTHER_JOB}
        result.update(spelled_as_words(result))
        result.setdefault("OMP_NUM_THREADS", str(threads_per_process(cores, self.most_on_a_host)))
        given = dict(self.tunables)
        if self.start_timeout_s is not None:
            given["START_TIMEOUT"] = f"{self.start_timeout_s:g}"
        for name, value in given.items():
            # Not under our own name, which would come before what a script says under Horovod's.
            result[f"HOROVOD_{name}"] = value
            result.pop(f"FARANDOLE_{name}", None)
        if terminal is not None and self.prefix_output:
            # Workers write to a pipe, and ask these how long a line may be.
            result["COLUMNS"] = str(max(COLUMNS_LEAST, terminal.columns - self._prefix_width()))
            result["LINES"] = str(terminal.lines)
        if self.network_interfaces:
            # As Horovod does. With "=" names are whole ones, and not beginnings of names.
            result.setdefault("NCCL_SOCKET_IFNAME", "=" + ",".join(self.network_interfaces))
        if self.nccl_without_ib:
            result["NCCL_IB_DISABLE"] = "1"
            result["FARANDOLE_TRANSPORT"] = "tcp"
        if self.verbose and "LOG_LEVEL" not in given:
            result.setdefault("FARANDOLE_LOG_LEVEL", "info")
        return result


# A run inside of a worker of another run is a job of its own.
_OF_ANOTHER_JOB = frozenset(
    f"{prefix}_{name}"
    for prefix in ("FARANDOLE", "HOROVOD")
    for name in (
        "AGENT_SOCKET",
        "DATA_ADDRESS",
        "ELASTIC",
        "JOB",
        "MAX_SIZE",
        "MIN_SIZE",
        "RANK",
        "SIZE",
        "LOCAL_RANK",
        "LOCAL_SIZE",
        "CROSS_RANK",
        "CROSS_SIZE",
        "HOSTNAME",
    )
)


def threads_per_process(cores: int, processes: int) -> int:
    """Computing threads for each of `processes` that share `cores`."""
    return max(1, cores // processes)


def allowed_cores() -> int:
    """Cores that this process may use: its affinity, and the CPU quota of its cgroup rounded up."""
    cores = len(os.sched_getaffinity(0))
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        if quota != "max":
            cores = min(cores, max(1, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        pass
    return cores
