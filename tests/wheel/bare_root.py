"""A Debian root that has Python and nothing else: no gRPC, protobuf or abseil is there to be found by mistake.

It is made once by debootstrap under build/root, from the mirror that this machine's apt uses. What pip installs in it
lies in its folder /wheels. Needs the rights of root: for debootstrap, mounts and chroot.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import debian_root  # noqa: E402

WORK = ROOT / "build" / "root"
BASE = WORK / "base"
READY = WORK / "ready"
# What the examples import; the rest has to come from what the wheels declare.
PACKAGES = ["torch==2.13.0", "scikit-learn", "tqdm"]
PATH = "/usr/bin:/bin"
HOST = "bare"
# Mounts and the host's name end with the namespaces, processes with their first one.
ENTER = f"""
hostname {HOST} && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --rbind /sys "$0/sys" &&
mount -t tmpfs tmpfs "$0/tmp" && exec chroot "$0" env -i "$@"
"""


def run(*command: object, **extra: object) -> str:
    """Standard output of a command that must succeed."""
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True, **extra).stdout


def inside(*command: object, folder: str = "/", timeout_s: int = 600, **variables: str) -> str:
    """Output of a command in a folder of the root, errors included.

    It has no variables but these, HOME, LANG and PATH, and a process namespace of its own, so nothing stays behind.
    """
    variables = {"HOME": "/root", "LANG": "C.UTF-8", "PATH": PATH, **variables}
    settings = [f"{name}={value}" for name, value in variables.items()]
    enter = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, BASE]
    enter += [f"--chdir={folder}", *settings, *command]
    what = f"wheel-test: {' '.join(map(str, command))}"
    try:
        done = subprocess.run(
            [str(c) for c in enter], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired as error:
        raise SystemExit(f"{what}: no end within {timeout_s} s\n{(error.stdout or b'').decode()}") from None
    if done.returncode:
        raise SystemExit(f"{what}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def make_root() -> None:
    """debootstrap, and in /wheels what is installed inside, downloaded outside."""
    packages = [*PACKAGES, *run(sys.executable, ROOT / "scripts" / "project.py").splitlines()]
    wanted = " ".join([*packages, HOST])
    if READY.exists() and READY.read_text() == wanted:
        return
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    print(f"wheel-test: making a root under {WORK.relative_to(ROOT)} (once)", flush=True)
    debian_root.make(BASE)
    # Debian's installer writes such a file, debootstrap does not; torchrun looks for both names.
    (BASE / "etc" / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {HOST}\n")
    version = inside("python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    wheels = BASE / "wheels"
    pip = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", f"--python-version={version}"]
    run(*pip, "-d", wheels, *packages)
    READY.write_text(wanted)


def check_bare() -> None:
    """The root has none of the libraries that the wheel has to bring."""
    found = [p for p in (BASE / "usr").rglob("*.so*") if re.match(r"lib(grpc|gpr|protobuf|absl|cares|re2|upb)", p.name)]
    if found:
        raise SystemExit(f"wheel-test: the root is not bare: {found}")
