"""`make test-kubernetes-page`: the commands of docs/kubernetes.md, "Without a cluster", by somebody with a bare Debian.

Makes a root by debootstrap that has git, make and certificates, clones into it what is committed in this tree, and
types there what the page says, one line after the other: the cluster is built, pods train, this machine's browser sees
the dashboard. Takes what building everything takes. Root and all that was built in it go at the end.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import Empty, Queue

import namespaces
import node
import processes
from browser import browser

ROOT = processes.ROOT
sys.path.insert(0, str(ROOT / "scripts"))
import debian_root  # noqa: E402

BASE = ROOT / "build" / "bare-root"
PICTURE = ROOT / "build" / "test" / "dashboard-cluster.webp"
TREE = "/root/farandole"
# As docs/kubernetes.md and README.md have it.
PACKAGES = ("git", "make", "ca-certificates")
BUILD_S, COMMAND_S, TRAIN_S, ALL_S = 4500.0, 120.0, 900.0, 6000.0
SHOWN_S, END_S = 120.0, 60.0
# $1: the root; the rest: folders of this machine that pip's settings name, "--", and a command.
ENTER = """set -eu
hostname bare
mount --bind "$1" "$1"
cd "$1"
shift
mkdir -p old
mount -t proc proc proc
mount --rbind /dev dev
mount --rbind /sys sys
while [ "$1" != -- ]; do
  mkdir -p ".$1" && mount --bind "$1" ".$1"
  shift
done
shift
pivot_root . old
cd /
umount -l old
exec env -i "$@"
"""


def section() -> list[str]:
    """The commands of the page, `make cluster` first, a line each."""
    text = (ROOT / "docs" / "kubernetes.md").read_text().split("\n## Without a cluster\n")[1].split("\n## ")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)
    return "".join(blocks).replace("\\\n", "").splitlines()


def pip_settings() -> tuple[dict[str, str], list[str]]:
    """Where this machine's pip finds packages: as variables, and the folders of this machine that they lead to."""
    variables, folders = {}, []
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True)
    for name, value in re.findall(r"^[\w:]+\.([\w-]+)='(.*)'$", listed.stdout, re.M):
        variables["PIP_" + name.upper().replace("-", "_")] = value
        for word in value.split():
            # The pages of an index lead to files beside it.
            folders.append(str(Path(word[7:]).parent) if word.startswith("file://") else word)
    return variables, sorted(folder for folder in set(folders) if folder.startswith("/") and Path(folder).is_dir())


def make_root() -> None:
    """Debian, its names and this tree's last commit."""
    remove_root()
    print(f"from_bare_root: Debian in {BASE.relative_to(ROOT)}", flush=True)
    BASE.parent.mkdir(exist_ok=True)
    debian_root.make(BASE, PACKAGES)
    (BASE / "etc" / "hosts").write_text("127.0.0.1 localhost\n127.0.1.1 bare\n")
    shutil.copy("/etc/resolv.conf", BASE / "etc" / "resolv.conf")
    subprocess.run(["git", "clone", "-q", "--no-local", str(ROOT), f"{BASE}{TREE}"], check=True)


def remove_root() -> None:
    """Without this machine's own folders, which were mounted in namespaces that are gone."""
    if BASE.exists():
        assert not [line for line in Path("/proc/mounts").read_text().splitlines() if str(BASE) in line]
        # Go and Bazel leave folders that nobody may write; root may.
        subprocess.run(["rm", "-rf", str(BASE)], check=True)


def copy_files(variables: dict[str, str]) -> None:
    """The files that pip's settings name: certificates, constraints."""
    for value in variables.values():
        inside = BASE / value[1:]
        if value.startswith("/") and Path(value).is_file():
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(value, inside)


def control_groups() -> set[Path]:
    """Of clusters of tests, on this machine: theirs are not in a namespace."""
    return set(node.CGROUPS.glob("*/farandole-test-*"))


class Shell:
    """One in the root, to which lines are typed. What it says is shown, and kept as lines."""

    def __init__(self) -> None:
        variables, folders = pip_settings()
        copy_files(variables)
        settings = {"HOME": "/root", "LANG": "C.UTF-8", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **variables}
        words = ["unshare", "-m", "-u", "-p", "-f", "--kill-child", "sh", "-c", ENTER, "sh", str(BASE), *folders, "--"]
        words += [f"{name}={value}" for name, value in settings.items()]
        self._process = subprocess.Popen(
            [*words, "bash", "-c", f"cd {TREE} && exec bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
            preexec_fn=namespaces.die_with_the_test,
        )
        self._lines: Queue[str | None] = Queue()
        self._end = time.monotonic() + ALL_S
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            print("  | " + line, end="", flush=True)
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def type(self, line: str) -> None:
        print(f"from_bare_root: $ {line}", flush=True)
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")

    def until(self, pattern: str, seconds: float) -> str:
        """What it says until a line matches, this one included. Ends the whole if it does not come."""
        end = min(time.monotonic() + seconds, self._end)
        said: list[str] = []
        while not said or not re.search(pattern, said[-1]):
            try:
                line = self._lines.get(timeout=max(0.0, end - time.monotonic()))
            except Empty:
                line = None
            if line is None:
                raise SystemExit(f"from_bare_root: no {pattern!r} within {seconds:.0f} s, or the shell has ended")
            said.append(line)
        return "\n".join(said)

    def run(self, line: str, seconds: float = COMMAND_S) -> str:
        """What a command says, which has to succeed."""
        self.type(f'{line}\necho "ended with $?."')
        said = self.until(r"^ended with \d+\.$", seconds)
        if not said.endswith("ended with 0."):
            raise SystemExit(f"from_bare_root: {line}: failed, see above")
        return said

    def wait(self) -> int:
        """After the last line: nothing of the shell is left. Its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(COMMAND_S)

    def end(self) -> None:
        """Whatever it does: what runs in it gets time to clean up, and is gone when this returns."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # The last one that could write has ended.
        self._reader.join(END_S)


def see(url: str) -> None:
    """The page in a browser, which names all ranks and how fast they are, and that nothing is wrong."""
    with browser() as page:
        page.resize(1280, 1320)
        page.go(url)
        page.wait_for("document.querySelectorAll('#hosts button').length === 4", SHOWN_S)
        # What they reduce has been reported; then a quarter of a minute of curves.
        page.wait_for("/[1-9][^ ]* [kMG]B so far/.test(document.querySelector('#figures').innerText)", SHOWN_S)
        page.ask("new Promise((done) => setTimeout(done, 15000))")
        PICTURE.parent.mkdir(exist_ok=True)
        page.picture(PICTURE, quality=70)
        assert page.complaints == [], page.complaints
    print(f"from_bare_root: the dashboard shows four ranks: {PICTURE.relative_to(ROOT)}", flush=True)


def follow(shell: Shell, lines: list[str]) -> None:
    """Types what the page says; what is expected of it stands here."""
    started = time.monotonic()
    assert lines[0] == "make cluster" and lines[-1] == "exit", lines
    shell.type(lines[0] + '; echo "the cluster ended with $?."')
    if not shell.until(r"^A cluster of 2 nodes|^the cluster ended", BUILD_S).splitlines()[-1].startswith("A cluster"):
        raise SystemExit("from_bare_root: no cluster, see above")
    print(f"from_bare_root: the cluster is there after {(time.monotonic() - started) / 60:.1f} minutes", flush=True)
    for line in lines[1:-1]:
        if " dashboard " in line:
            shell.type(line + " &")
            (url,) = re.findall(r"http://\S+", shell.until("http://", COMMAND_S))
            see(url)
            continue
        said = shell.run(line, TRAIN_S if " logs -f " in line else COMMAND_S)
        if " logs -f " in line and not re.search(r"test accuracy (0\.9\d+|1\.0+), processes 4", said):
            raise SystemExit("from_bare_root: no accuracy above 0.9, see above")
    shell.type("kill $!; wait")
    shell.type(lines[-1])
    # The shell around it goes on.
    shell.until(r"^the cluster ended with 0\.$", COMMAND_S)
    if code := shell.wait():
        raise SystemExit(f"from_bare_root: exit code {code}")


def main() -> int:
    """Exit code 0 if every command did what the page says."""
    if os.geteuid() != 0:
        print("from_bare_root: debootstrap, mounts and a cluster need root", file=sys.stderr)
        return 1
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(143))
    lines, groups = section(), control_groups()
    print("from_bare_root: " + shlex.join(lines), flush=True)
    try:
        make_root()
        shell = Shell()
        try:
            follow(shell, lines)
        finally:
            shell.end()
    finally:
        # Of a cluster that was killed.
        for group in control_groups() - groups:
            node.remove_groups(group)
        if not os.environ.get("KEEP"):
            remove_root()
    print("from_bare_root: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
