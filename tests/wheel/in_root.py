"""`make wheel-test`: trains with two processes in a Debian root that has only Python, torch and the wheel.

No gRPC, protobuf or abseil of the system is there to be found by mistake. The root is made once by debootstrap under
build/root, from the mirror that this machine's apt uses. Needs root: for debootstrap, mounts and chroot.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "root"
BASE = WORK / "base"
READY = WORK / "ready"
# What the examples import; the rest has to come from what the wheels declare.
PACKAGES = ["torch==2.13.0", "scikit-learn", "tqdm"]
# Mounts end with the namespace, processes with its first one.
ENTER = """
mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --rbind /sys "$0/sys" &&
mount -t tmpfs tmpfs "$0/tmp" && exec chroot "$0" env -i PATH=/usr/bin:/bin HOME=/root LANG=C.UTF-8 "$@"
"""


def run(*command: object, **extra: object) -> str:
    """Standard output of a command that must succeed."""
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True, **extra).stdout


def mirror() -> tuple[str, str]:
    """Address and suite of this machine's own Debian."""
    suite = run("sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME").strip()
    targets = run(
        "apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages", "Origin: Debian"
    )
    found = [line.split()[0] for line in targets.splitlines() if line.split()[1] == suite]
    if not found:
        raise SystemExit(
            f"wheel-test: apt knows no source of {suite}; look at /etc/apt/sources.list, run apt-get update"
        )
    return found[0], suite


def inside(*command: object, timeout_s: int = 600) -> str:
    """Output of a command in the root, errors included; in a process namespace of its own, so nothing stays behind."""
    enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, BASE, *command]
    done = subprocess.run(
        [str(c) for c in enter], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s
    )
    if done.returncode:
        raise SystemExit(f"wheel-test: {' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def make_root() -> None:
    """debootstrap, and in /wheels what is installed inside, downloaded outside."""
    packages = [*PACKAGES, *run(sys.executable, ROOT / "scripts" / "project.py").splitlines()]
    if READY.exists() and READY.read_text() == " ".join(packages):
        return
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    address, suite = mirror()
    print(f"wheel-test: making a {suite} root under {WORK.relative_to(ROOT)} (once)", flush=True)
    run("debootstrap", "--variant=minbase", "--include=python3,python3-venv", suite, BASE, address)
    version = inside("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    wheels = BASE / "wheels"
    pip = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", f"--python-version={version}"]
    run(*pip, "-d", wheels, *packages)
    READY.write_text(" ".join(packages))


def check_bare() -> None:
    """The root has none of the libraries that the wheel has to bring."""
    found = [p for p in (BASE / "usr").rglob("*.so*") if re.match(r"lib(grpc|gpr|protobuf|absl|cares|re2|upb)", p.name)]
    if found:
        raise SystemExit(f"wheel-test: the root is not bare: {found}")


def train(pattern: str, command: str, *arguments: str) -> None:
    """Runs a command of the wheels, which has to print an accuracy above 0.9."""
    output = inside(f"/venv/bin/{command}", *arguments)
    print(output.replace("\r", "\n").splitlines()[-1])
    result = re.search(pattern, output)
    if not result or float(result.group(1)) <= 0.9:
        raise SystemExit(f"wheel-test: no accuracy above 0.9 in\n{output}")


def main() -> int:
    """Exit code 0 if both trainings ended with a good accuracy."""
    if os.geteuid() != 0:
        print("wheel-test: debootstrap, mount and chroot need root; run: sudo make wheel-test", file=sys.stderr)
        return 1
    make_root()
    check_bare()
    wheels = sorted((ROOT / "build" / "wheel" / "dist").glob("*.whl"))
    examples = [ROOT / "examples" / "torch_digits.py", ROOT / "tests" / "multiprocess" / "horovod_digits.py"]
    for file in (*wheels, *examples):
        shutil.copy(file, BASE / file.name)
    inside("python3", "-m", "venv", "--clear", "/venv")
    install = ["/venv/bin/pip", "install", "-q", "--no-index", "--find-links=/wheels"]
    inside(*install, *(f"/{wheel.name}" for wheel in wheels), *PACKAGES)
    python = "/venv/bin/python"
    train(r"test accuracy (\d\.\d+), processes 2", "farandole", "run", "-np", "2", python, "/torch_digits.py")
    train(r"accuracy (\d\.\d+), ranks 2", "horovodrun", "-np", "2", python, "/horovod_digits.py")
    print("wheel-test: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
