"""What an emulated machine boots from: Debian's kernel, and an archive of first files with a shell, the kernel's
modules for RDMA, verbs and the tools that come with them. All of it is taken out of the packages that
`scripts/install_deps.sh --rdma` has unpacked.
"""

from __future__ import annotations

import lzma
import os
import re
import stat
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / ".deps" / "rdma"
CACHE = ROOT / "build" / "rdma"
LIBRARIES = "lib/x86_64-linux-gnu"
EMULATOR = PACKAGES / "usr/bin/qemu-system-x86_64"

# In the guest they are loaded in this order, each after those that it depends on. Soft-RoCE protects every packet by a
# crc32, which it finds by its name at run time, so that no module says that it depends on it.
MODULES = ("virtio_pci", "virtio_net", "virtio_console", "9pnet_virtio", "9p", "crc32_generic", "rdma_rxe", "ib_uverbs")
MODULES_ON_DEMAND = ("sch_netem",)
TOOLS = (
    "usr/bin/rdma",
    "sbin/tc",
    "usr/bin/ibv_devices",
    "usr/bin/ibv_devinfo",
    "usr/bin/ibv_rc_pingpong",
    "usr/bin/ib_read_bw",
    "usr/bin/ib_send_bw",
    "usr/bin/ib_send_lat",
    "usr/bin/ib_write_bw",
    "usr/bin/ib_write_lat",
)
DRIVER = "usr/lib/x86_64-linux-gnu/libibverbs"


class ImageError(Exception):
    """An image cannot be made; the text says what is missing."""


def why_not() -> str:
    """Why there are no emulated machines here; empty if there are."""
    if not (PACKAGES / "wanted.cksum").exists():
        return "no emulator: scripts/install_deps.sh --rdma has not unpacked its packages; its output says why"
    tried = subprocess.run([EMULATOR, "-version"], env=environment(), capture_output=True, text=True, timeout=60)
    return "" if tried.returncode == 0 else f"the emulator does not run here: {tried.stderr.strip()}"


def environment() -> dict[str, str]:
    """For programs of the packages, whose libraries nobody has installed."""
    folders = [str(PACKAGES / "usr" / LIBRARIES), str(PACKAGES / LIBRARIES)]
    return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(folders)}


def libraries(program: Path) -> dict[str, Path]:
    """The shared libraries that a program needs, by the names that it asks for, with the loader.

    Raises:
        ImageError: one of them is not on this machine.
    """
    listed = subprocess.run(["ldd", program], env=environment(), capture_output=True, text=True, timeout=60)
    if listed.returncode:
        raise ImageError(f"ldd cannot read {program}: {listed.stderr.strip()}")
    missing = re.findall(r"^\s*(\S+) => not found", listed.stdout, re.MULTILINE)
    if missing:
        raise ImageError(f"{program} needs {', '.join(missing)}, which nothing here has")
    found = re.findall(r"^\s*(?:(\S+) => )?(/\S+) \(0x", listed.stdout, re.MULTILINE)
    return {Path(name or path).name: Path(path) for name, path in found}


def module_order(folder: Path, wanted: Sequence[str]) -> list[Path]:
    """Files of kernel modules below `folder`, each behind those that it says it depends on.

    Raises:
        ImageError: the kernel has no such module.
    """
    files = {path.stem.replace("-", "_"): path for path in folder.rglob("*.ko")}
    order: dict[str, Path] = {}

    def add(name: str) -> None:
        if name in order:
            return
        if name not in files:
            raise ImageError(f"the kernel in {folder} has no module {name}")
        depends = re.search(rb"\0depends=([^\0]*)\0", files[name].read_bytes())
        for other in depends.group(1).decode().split(",") if depends else []:
            if other:
                add(other.replace("-", "_"))
        order[name] = files[name]

    for name in wanted:
        add(name)
    return list(order.values())


class Archive:
    """A cpio archive in the format that the kernel unpacks (its Documentation/driver-api/early-userspace)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._names: set[str] = set()

    def _add(self, path: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> None:
        parent = os.path.dirname(path)
        if parent and parent not in self._names:
            self._add(parent, stat.S_IFDIR | 0o755)
        self._names.add(path)
        name = path.encode() + b"\0"
        # Inode, mode, owner, group, links, time, size, device of the file, device that it is, length of the name, sum.
        fields = (len(self._names), mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name), 0)
        head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
        self._parts += [head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)]

    def folder(self, path: str) -> None:
        """An empty folder."""
        self._add(path, stat.S_IFDIR | 0o755)

    def file(self, path: str, data: bytes, mode: int = 0o755) -> None:
        """A file with these bytes."""
        self._add(path, stat.S_IFREG | mode, data)

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        self._add(path, stat.S_IFLNK | 0o777, target.encode())

    def console(self) -> None:
        """What the first process prints to before it has mounted anything."""
        self._add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))

    def __contains__(self, path: str) -> bool:
        return path in self._names

    def end(self) -> bytes:
        """All of it."""
        self._add("TRAILER!!!", 0)
        return b"".join(self._parts)


def add_program(archive: Archive, program: Path) -> None:
    """A program, with its libraries where the loader looks for them."""
    archive.file(f"usr/bin/{program.name}", program.read_bytes())
    for name, path in libraries(program).items():
        place = f"lib64/{name}" if name.startswith("ld-linux") else f"{LIBRARIES}/{name}"
        if place not in archive:
            archive.file(place, path.read_bytes())


def library_names() -> set[str]:
    """Of the libraries that the archive has for its own tools."""
    return {library for name in TOOLS for library in libraries(PACKAGES / name)}


def first_files() -> bytes:
    """The archive that the kernel unpacks into memory; its /init is guest_init.sh."""
    archive = Archive()
    for folder in ("proc", "sys", "tmp", "host"):
        archive.folder(folder)
    archive.console()
    archive.file("init", (Path(__file__).parent / "guest_init.sh").read_bytes())
    busybox = PACKAGES / "bin/busybox"
    archive.file("bin/busybox", busybox.read_bytes())
    for applet in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if applet != "busybox":
            archive.link(f"bin/{applet}", "busybox")
    for name in TOOLS:
        add_program(archive, PACKAGES / name)
    driver = next((PACKAGES / DRIVER).glob("librxe-*.so"))
    archive.file(f"{DRIVER}/{driver.name}", driver.read_bytes())
    archive.file("etc/libibverbs.d/rxe.driver", (PACKAGES / "etc/libibverbs.d/rxe.driver").read_bytes(), 0o644)
    modules = next((PACKAGES / "lib/modules").iterdir())
    at_start = module_order(modules, MODULES)
    for module in module_order(modules, MODULES + MODULES_ON_DEMAND):
        archive.file(f"modules/{module.name}", module.read_bytes(), 0o644)
    archive.file("modules/order", "".join(f"{path.name}\n" for path in at_start).encode(), 0o644)
    return archive.end()


def kernel() -> Path:
    """Debian's kernel without its compression, which an emulated processor would need three seconds for. It is kept."""
    packed = next((PACKAGES / "boot").glob("vmlinuz-*"))
    place = CACHE / packed.name.replace("vmlinuz", "vmlinux")
    if place.exists() and place.stat().st_mtime >= packed.stat().st_mtime:
        return place
    data = packed.read_bytes()
    begin = data.find(b"\xfd7zXZ\0")
    if begin < 0:
        raise ImageError(f"{packed} is not compressed with xz, as Debian's kernels were; image.py has to learn how")
    unpacked = lzma.LZMADecompressor().decompress(data[begin:])
    CACHE.mkdir(parents=True, exist_ok=True)
    temporary = CACHE / f"{place.name}.{os.getpid()}"
    temporary.write_bytes(unpacked)
    temporary.replace(place)
    return place
