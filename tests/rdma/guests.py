"""Emulated machines with Soft-RoCE devices: `with Guests(2) as (first, second): first.check("ibv_devinfo")`.

Each is a process of qemu, which needs no rights. Two of them are at one network, which is a pair of sockets in a
temporary folder; no port of this machine is opened. Commands go in over a virtual serial port; programs and output pass
through a folder that all share (/host in the guests). At the end, however it comes, no process is left, since a guest
dies with the process that started it, and no file, unless that was killed.
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import image

# A guest is up within five seconds; a machine that runs several builds at once is slow.
BOOT_S = 120.0
COMMAND_S = 120.0
MTU = 4200  # of the network: a little more than 4096, the largest of RoCE


class GuestError(AssertionError):
    """A guest did not do what was asked; the text has what it said last."""


@dataclass(frozen=True)
class Done:
    """What a command has come to: its exit status, and what it printed on both streams."""

    status: int
    output: str


class Command:
    """One that runs in a guest, as a process group of its own."""

    def __init__(self, guest: Guest, folder: Path, text: str) -> None:
        self._guest = guest
        self._folder = folder
        self.text = text

    @property
    def output(self) -> str:
        """What it has printed so far."""
        path = self._folder / "output"
        return path.read_text(errors="replace") if path.exists() else ""

    def ended(self) -> bool:
        """Whether it has ended, as far as its guest has said."""
        self._guest.listen(0)
        return self._folder.name in self._guest.statuses

    def wait(self, timeout_s: float = COMMAND_S) -> Done:
        """Waits for its end.

        Raises:
            GuestError: it did not end in time, or its guest ended before it.
        """
        deadline = time.monotonic() + timeout_s
        while not self.ended():
            if not self._guest.running:
                raise self._guest.error(f"ended before the command: {self.text}\n{self.output}")
            if time.monotonic() >= deadline:
                raise self._guest.error(f"still runs after {timeout_s} s: {self.text}\n{self.output}")
            self._guest.listen(deadline - time.monotonic())
        return Done(self._guest.statuses[self._folder.name], self.output)

    def wait_for(self, text: str, timeout_s: float = COMMAND_S) -> str:
        """Waits until it has printed `text`, and returns its output so far.

        Raises:
            GuestError: it did not in time, or ended without.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            over = self.ended() or not self._guest.running or time.monotonic() >= deadline
            output = self.output
            if text in output:
                return output
            if over:
                raise self._guest.error(f"nothing says {text!r} within {timeout_s} s: {self.text}\n{output}")
            self._guest.listen(0.02)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Sends a signal to all processes of it."""
        self._guest.say(f"kill {self._folder.name} {int(number)}")


class Guest:
    """One emulated machine.

    Attributes:
        number: 0 or 1.
        statuses: exit statuses of commands that have ended, by the names of their folders.
        boot_s: how long it took until it could take commands.
    """

    def __init__(self, number: int, guests: Guests) -> None:
        self.number = number
        self.statuses: dict[str, int] = {}
        self.boot_s = 0.0
        self._guests = guests
        self._rest = b""
        self._console = guests.folder / f"console{number}"
        self._started = time.monotonic()
        self._control, control = socket.socketpair()
        self._monitor, monitor = socket.socketpair()
        # Paths of sockets must be short, so they are relative to the folder.
        with control, monitor, self._console.with_suffix(".qemu").open("wb") as said:
            self._process = subprocess.Popen(
                # It is killed with the process that has started it.
                ["setpriv", "--pdeathsig", "KILL", *self._command(control.fileno(), monitor.fileno())],
                env=image.environment(),
                pass_fds=[control.fileno(), monitor.fileno()],
                cwd=guests.folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _command(self, control: int, monitor: int) -> list[str]:
        guests, data = self._guests, image.PACKAGES / "usr/share"
        # On a busy machine an emulated timer is late; that must neither end the start nor turn to a slower clock.
        kernel = "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check tsc=reliable nowatchdog "
        kernel += f"guest={self.number} ports={guests.ports} mtu={MTU}"
        command = [str(image.EMULATOR), "-nodefaults", "-display", "none", "-no-reboot"]
        command += ["-L", str(data / "qemu"), "-L", str(data / "seabios"), "-accel", "tcg,thread=multi", "-cpu", "max"]
        command += ["-smp", str(guests.cpus), "-m", str(guests.memory_mib)]
        command += ["-kernel", str(guests.kernel), "-initrd", str(guests.first_files), "-append", kernel]
        command += ["-chardev", f"file,id=console,path={self._console}", "-serial", "chardev:console"]
        command += ["-chardev", f"socket,id=monitor,fd={monitor}", "-mon", "chardev=monitor,mode=control"]
        command += ["-chardev", f"socket,id=control,fd={control}"]
        command += ["-device", "virtio-serial-pci", "-device", "virtserialport,chardev=control,nr=1"]
        command += ["-fsdev", f"local,id=host,path={guests.share},security_model=none,multidevs=remap"]
        command += ["-device", "virtio-9p-pci,fsdev=host,mount_tag=host"]
        for port in range(guests.ports):
            own, other = (f"port{port}of{n}" for n in (self.number, 1 - self.number))
            network = f"dgram,id=net{port},local.type=unix,local.path={own},remote.type=unix,remote.path={other}"
            address = f"52:54:00:09:0{port}:0{self.number + 1}"
            command += ["-netdev", network]
            command += ["-device", f"virtio-net-pci,id=port{port},netdev=net{port},mac={address},host_mtu={MTU}"]
        return command

    def finish_boot(self) -> None:
        """Waits until it takes commands.

        Raises:
            GuestError: it does not.
        """
        while not self.boot_s:
            left_s = self._started + BOOT_S - time.monotonic()
            if left_s <= 0 or not self.running:
                raise self.error(f"is not up after {time.monotonic() - self._started:.0f} s")
            self.listen(min(left_s, 0.5))
        self._ask("qmp_capabilities")

    @property
    def running(self) -> bool:
        """Whether its process is there; a paused one is."""
        return self._process.poll() is None

    def console(self) -> str:
        """What it has printed on its console: the kernel's words, and how long each part of its start took."""
        return self._console.read_text(errors="replace").replace("\r", "") if self._console.exists() else ""

    def error(self, what: str) -> GuestError:
        """An error with what the guest said last."""
        emulator = self._console.with_suffix(".qemu").read_text(errors="replace")
        code = "" if self.running else f" (its process ended with {self._process.returncode})"
        return GuestError(f"guest {self.number}{code} {what}\n--- console\n{self.console()[-3000:]}{emulator}")

    def say(self, line: str) -> None:
        """Sends a line to guest_init.sh.

        Raises:
            GuestError: the guest has ended.
        """
        try:
            self._control.sendall(f"{line}\n".encode())
        except OSError:
            raise self.error(f"cannot be told: {line}") from None

    def listen(self, timeout_s: float) -> None:
        """Waits for something that the guest says, and notes it."""
        self._control.settimeout(max(timeout_s, 1e-6))
        try:
            data = self._control.recv(1 << 16)
        except (socket.timeout, BlockingIOError):
            return
        except OSError:
            data = b""
        if not data:
            # The guest is gone, or going; whoever waits in a loop must not spin meanwhile.
            try:
                self._process.wait(max(timeout_s, 0.001))
            except subprocess.TimeoutExpired:
                pass
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            verb, *words = line.decode().split()
            if verb == "ended":
                self.statuses[words[0]] = int(words[1])
            elif verb == "ready":
                self.boot_s = time.monotonic() - self._started

    def start(self, command: str) -> Command:
        """Starts a command of the guest's shell, in its /tmp."""
        folder = self._guests.new_job()
        (folder / "command").write_text(f"{command}\n")
        self.say(f"run {folder.name}")
        return Command(self, folder, command)

    def run(self, command: str, timeout_s: float = COMMAND_S) -> Done:
        """Runs a command to its end; what does not end in time is a GuestError."""
        return self.start(command).wait(timeout_s)

    def check(self, command: str, timeout_s: float = COMMAND_S) -> str:
        """The output of a command that succeeds.

        Raises:
            GuestError: it fails, or does not end in time.
        """
        done = self.run(command, timeout_s)
        if done.status:
            raise self.error(f"says {done.status} to: {command}\n{done.output}")
        return done.output

    def wait_for_listener(self, tcp_port: int) -> None:
        """Waits until something listens there; the tools of verbs do not say when they do."""
        self.check(f"until netstat -lnt | grep -q ':{tcp_port} '; do usleep 20000; done")

    def address(self, port: int = 0) -> str:
        """Its IPv4 address on a port."""
        return f"10.9.{port}.{self.number + 1}"

    def address6(self, port: int = 0) -> str:
        """Its routable IPv6 address on a port."""
        return f"fd09:0:0:{port}::{self.number + 1}"

    def kill(self) -> None:
        """Ends it as a loss of power does."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Stops all its processors: it hangs, and nobody is told."""
        self._ask("stop")

    def resume(self) -> None:
        """Takes `pause` back."""
        self._ask("cont")

    def set_link(self, up: bool, port: int = 0) -> None:
        """Pulls the cable of a port, or puts it in; the guest's kernel is told."""
        self._ask("set_link", name=f"port{port}", up=up)

    def _ask(self, verb: str, **arguments: object) -> None:
        """A command of qemu's monitor, which answers a line of JSON to each, and tells events between."""
        self._monitor.settimeout(COMMAND_S)
        try:
            self._monitor.sendall(json.dumps({"execute": verb, "arguments": arguments}).encode())
            answer = b""
            while b'"return"' not in answer and b'"error"' not in answer:
                more = self._monitor.recv(1 << 16)
                if not more:
                    raise self.error(f"ended before {verb}")
                answer += more
        except OSError as error:
            raise self.error(f"does not {verb}: {error}") from None
        if b'"error"' in answer:
            raise self.error(f"does not {verb}: {answer.decode()}")

    def end(self) -> None:
        """Kills it and gives back what it held."""
        self.kill()
        self._control.close()
        self._monitor.close()


class Guests:
    """One or two emulated machines, which are up once the context is entered.

    Attributes:
        folder: for everything of them; it goes with them.
        share: what they have as /host.
    """

    def __init__(self, count: int, ports: int = 1, cpus: int | None = None, memory_mib: int = 768) -> None:
        """Describes them.

        Args:
            count: 1 or 2.
            ports: network ports of each, eth0, eth1, ..., with a Soft-RoCE device each, rxe0, rxe1, ...; eth0 of one is
                at a network with eth0 of the other, and so on.
            cpus: of each; by default two in all.
            memory_mib: of each, in MiB.
        """
        self.ports, self.cpus, self.memory_mib = ports, cpus or 2 // count, memory_mib
        self._count = count
        self._guests: list[Guest] = []
        self._jobs = 0

    def __enter__(self) -> Guests:
        self.folder = Path(tempfile.mkdtemp(prefix="guests-"))
        try:
            self.share = self.folder / "share"
            for name in ("bin", "libexec", "lib", "jobs"):
                (self.share / name).mkdir(parents=True)
            self.kernel = image.kernel()
            self.first_files = self.folder / "first_files"
            self.first_files.write_bytes(image.first_files())
            self._in_image = image.library_names()
            self._guests = [Guest(number, self) for number in range(self._count)]
            for guest in self._guests:
                guest.finish_boot()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        for guest in self._guests:
            guest.end()
        shutil.rmtree(self.folder)

    def __iter__(self) -> Iterator[Guest]:
        return iter(self._guests)

    def __getitem__(self, number: int) -> Guest:
        return self._guests[number]

    def boot(self, number: int) -> Guest:
        """A new guest in the place of one, which is ended first if it still runs."""
        self._guests[number].end()
        self._guests[number] = Guest(number, self)
        self._guests[number].finish_boot()
        return self._guests[number]

    def new_job(self) -> Path:
        """A folder for a command and its output."""
        self._jobs += 1
        folder = self.share / "jobs" / str(self._jobs)
        folder.mkdir()
        return folder

    def install(self, program: Path, name: str | None = None) -> str:
        """Gives a program of this machine with its shared libraries to the guests, also to those that run already.

        Returns:
            The name by which commands in the guests call it: that of its file, or `name`.
        """
        name = name or program.name
        shutil.copy(program, self.share / "libexec" / name)
        for library, path in image.libraries(program).items():
            place = self.share / "lib" / library
            if library not in self._in_image and not place.exists():
                shutil.copy(path, place)
        # Only programs of ours look there: each look costs a millisecond.
        script = self.share / "bin" / name
        script.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH=/host/lib exec /host/libexec/{name} "$@"\n')
        script.chmod(0o755)
        return name
