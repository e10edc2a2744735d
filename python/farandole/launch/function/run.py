"""``farandole.run``: one function as several processes, from a script or a notebook."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from farandole.launch.hosts.hosts import Host


def run(
    func: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    num_proc: int = 1,
    min_num_proc: int | None = None,
    max_num_proc: int | None = None,
    slots: int | None = None,
    reset_limit: int | None = None,
    cooldown_range: Sequence[int] | None = None,
    hosts: str | None = None,
    hostfile: str | None = None,
    host_discovery_script: str | None = None,
    start_timeout: float | None = None,
    ssh_port: int | None = None,
    ssh_identity_file: str | None = None,
    disable_cache: bool | None = None,
    output_filename: str | None = None,
    verbose: int | bool | None = None,
    use_gloo: bool | None = None,
    use_mpi: bool | None = None,
    mpi_args: str | None = None,
    network_interface: str | None = None,
    network_interfaces: str | None = None,
    executable: str | None = None,
    np: int | None = None,
    min_np: int | None = None,
    max_np: int | None = None,
) -> list[Any]:
    """Calls a function in `num_proc` new processes and returns the results of all of them.

    The processes find each other in ``hvd.init()``. Their output appears as under `farandole run`. Ctrl-C interrupts
    the function in all processes and raises KeyboardInterrupt here; a second one ends the processes, a third one kills
    them. `np`, `min_np`, `max_np` and `network_interface` are former names of arguments. `disable_cache`, `use_gloo`,
    `use_mpi` and `mpi_args` are accepted, without effect.

    Args:
        func: the function that every process calls. It is pickled by cloudpickle: a function of a notebook or script by
            value; one of a module by name, so the module has to be on this process' sys.path.
        args: its positional arguments.
        kwargs: its named arguments.
        num_proc: number of processes; `min_num_proc` if that is more.
        min_num_proc: elastic runs: the fewest processes. The results are those of the first `min_num_proc` ranks then.
        max_num_proc: elastic runs: the most processes.
        slots: elastic runs: processes per host, where the host-discovery script does not say.
        reset_limit: elastic runs: the run ends at the change of workers after so many.
        cooldown_range: elastic runs: least and most seconds after which a slot that has failed is used again.
        hosts: hosts with slots, as ``"node1:4,node2:4"``; reached by ssh, with this package at the same place.
        hostfile: file with a line ``HOST slots=N`` for each host.
        host_discovery_script: elastic runs: program that prints a line ``HOST:SLOTS`` for each host.
        start_timeout: seconds that ``hvd.init()`` waits for the other processes (30).
        ssh_port: port of ssh on the other hosts.
        ssh_identity_file: private key for ssh.
        output_filename: folder into which the output is written as well.
        verbose: True: tells what launcher, agent and controller do.
        network_interfaces: names of the network interfaces that hosts use among each other.
        executable: Python of the processes, which needs this package (default: the one that runs this).

    Returns:
        What the function has returned in each process, in the order of ranks.

    Raises:
        RunError: (a RuntimeError) the function has raised an exception, or a process ended without a result; the text
            names the rank and holds its traceback.
        ValueError: an argument makes no sense, or two contradict each other.
        TypeError: `func` cannot be called, `args` is no list, `kwargs` is no dict, or something cannot be pickled.
            pickle.PicklingError: the function or its arguments cannot be pickled.
        KeyboardInterrupt: Ctrl-C.
    """
    return _run(locals())


_FORMER_NAMES = {
    "np": "num_proc",
    "min_np": "min_num_proc",
    "max_np": "max_num_proc",
    "network_interface": "network_interfaces",
}
# Those that are flags of `farandole run`, in its terms.
_FLAGS = {
    "num_proc": "-np",
    "min_num_proc": "--min-np",
    "max_num_proc": "--max-np",
    "slots": "--slots-per-host",
    "reset_limit": "--reset-limit",
    "cooldown_range": "--blacklist-cooldown-range",
    "hosts": "--hosts",
    "hostfile": "--hostfile",
    "host_discovery_script": "--host-discovery-script",
    "start_timeout": "--start-timeout",
    "ssh_port": "--ssh-port",
    "ssh_identity_file": "--ssh-identity-file",
    "disable_cache": "--disable-cache",
    "output_filename": "--output-filename",
    "verbose": "--verbose",
    "use_mpi": "--mpi",
    "mpi_args": "--mpi-args",
    "network_interfaces": "--network-interfaces",
}


# Whoever only imports the package does without what these functions import.
def _run(given: dict[str, Any]) -> list[Any]:
    """`run` with its arguments by name."""
    for old, new in _FORMER_NAMES.items():
        if given[old] is not None:
            warnings.warn(f"{old} is deprecated: call it {new}", DeprecationWarning, stacklevel=3)
            given[new] = given[old]
    _check(given)
    from farandole.launch.function import caller

    call = (given["func"], tuple(given["args"]), dict(given["kwargs"] or {}))
    least = given["min_num_proc"]
    expected = given["num_proc"] if least is None else least
    given["num_proc"] = max(given["num_proc"], least or 1)
    return caller.run(call, expected, _options(given), given["executable"])


def _check(given: dict[str, Any]) -> None:
    from numbers import Integral

    func, args, kwargs, processes = (given[name] for name in ("func", "args", "kwargs", "num_proc"))
    if not callable(func):
        raise TypeError(f"farandole.run calls a function, not a {type(func).__name__}: farandole.run(train)")
    if isinstance(args, (str, bytes)) or not isinstance(args, Sequence):
        raise TypeError(f"args are a {type(args).__name__}; they have to be a tuple or a list: args=(value,)")
    if kwargs is not None and not isinstance(kwargs, Mapping):
        raise TypeError(f"kwargs are a {type(kwargs).__name__}; they have to be a dict, or None")
    for one, other in (("use_gloo", "use_mpi"), ("hosts", "hostfile")):
        if given[one] and given[other]:
            raise ValueError(f"{one} and {other} exclude each other; give one of them")
    if not isinstance(processes, Integral) or isinstance(processes, bool) or processes < 1:
        raise ValueError(f"num_proc is {processes!r}; it has to be a whole number from 1 on")
    found = _hosts(given["hosts"], given["hostfile"])
    if found and given["min_num_proc"] is None:
        from farandole.launch.hosts import hosts

        hosts.assign_ranks(found, int(processes))


def _hosts(text: str | None, path: str | None) -> Sequence[Host]:
    """Raises ValueError."""
    from farandole.launch.hosts import hosts

    if text is not None:
        return hosts.parse_hosts(text)
    return [] if path is None else hosts.read_hostfile(path)


def _options(given: dict[str, Any]) -> list[str]:
    """As `farandole run` takes them. What is wrong with a value is for it to say."""
    options = []
    for name, flag in _FLAGS.items():
        value = given[name]
        if value is None or value is False:
            continue
        if flag in ("--verbose", "--disable-cache", "--mpi"):
            options += [flag] if value else []
        elif name == "cooldown_range":
            options += [flag, *map(str, value)]
        elif name == "num_proc":
            options += [flag, str(value)]
        else:
            options.append(f"{flag}={value}")
    return options
