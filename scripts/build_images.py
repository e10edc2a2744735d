"""`make images`: container images as files, build/images/NAME.tar, that `docker load` and `ctr images import` take.

deploy/images/ says how they are made; buildah does it here, without a daemon and without a registry: the image that all
begin with is a Debian root of this machine's own release, and what pip installs is downloaded before. The folder that
the container files read, their context, holds only these wheels.

Needs the rights of root: for debootstrap and chroot.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import debian_root
from project import FARANDOLE, ROOT

OUT = ROOT / "build" / "images"
CONTEXT = OUT / "context"
STORAGE = OUT / "storage"
BUILDAH = ROOT / ".deps" / "buildah" / "usr" / "bin" / "buildah"
BASE = "localhost/farandole/base:latest"
# Name, container file, what pip gets as a framework, and which modules are compiled.
IMAGES = {
    "controller": ("controller", "", ""),
    "worker": ("worker", "", ""),
    "worker-torch": ("worker", "torch==2.13.0 numpy", "farandole.torch"),
    # The release without a local part ("+cpu") brings CUDA and NCCL: gigabytes, made only when it is named.
    "worker-torch-cuda": ("worker", "torch===2.13.0 numpy", ""),
    "worker-tensorflow": ("worker", "tensorflow-cpu==2.21.0", ""),
    # With what examples/torch_*.py import.
    "worker-examples": (
        "worker",
        "torch==2.13.0 scikit-learn tqdm",
        "farandole.torch,sklearn.datasets,sklearn.model_selection,tqdm",
    ),
}
# Of a root that nobody logs in to.
NOT_NEEDED = (
    "var/cache/apt",
    "var/lib/apt/lists",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
)


def tag_of(name: str) -> str:
    """What an image is called; with the release, as nobody should pull what changes under a name."""
    return f"farandole/{name}:{FARANDOLE.version}"


def buildah(*words: object) -> None:
    """Raises SystemExit with what it said if it fails."""
    environment = {**os.environ, "CONTAINERS_STORAGE_CONF": str(OUT / "storage.conf")}
    command = [str(word) for word in (BUILDAH, *words)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{done.stdout}")


def build(file: Path, tag: str, context: Path, *options: str) -> None:
    """An image in the storage."""
    policy = f"--signature-policy={OUT / 'policy.json'}"
    buildah("build", "--isolation=chroot", policy, *options, "-f", file, "-t", tag, context)


def set_up_storage() -> None:
    """A storage of its own, for this run."""
    STORAGE.mkdir(parents=True)
    lines = ("[storage]", 'driver = "overlay"', f'graphroot = "{STORAGE}/graph"', f'runroot = "{STORAGE}/run"')
    (OUT / "storage.conf").write_text("\n".join(lines) + "\n")
    (OUT / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}\n')


def import_base() -> None:
    """The image that the others begin with."""
    folder, archive = OUT / "base", OUT / "base.tar"
    if not archive.exists():
        shutil.rmtree(folder, ignore_errors=True)
        debian_root.make(folder)
        for name in NOT_NEEDED:
            shutil.rmtree(folder / name, ignore_errors=True)
            (folder / name).mkdir()
        subprocess.run(["tar", "-C", folder, "-cf", f"{archive}.part", "."], check=True)
        Path(f"{archive}.part").rename(archive)
        shutil.rmtree(folder)
    (OUT / "base.Containerfile").write_text('FROM scratch\nADD base.tar /\nENV PATH=/usr/bin:/bin\nCMD ["/bin/sh"]\n')
    build(OUT / "base.Containerfile", BASE, OUT)


def download(requirements: list[str]) -> None:
    """Our wheels, and all that pip will need besides."""
    wheels = CONTEXT / "wheels"
    shutil.rmtree(CONTEXT, ignore_errors=True)
    wheels.mkdir(parents=True)
    for wheel in (ROOT / "build" / "wheel" / "dist").glob("farandole*.whl"):
        shutil.copy(wheel, wheels)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--only-binary=:all:"]
    python = subprocess.run(
        ["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"],
        check=True,
        capture_output=True,
        text=True,
    )
    command = [
        *pip,
        f"--python-version={python.stdout.strip()}",
        "-d",
        str(wheels),
        *FARANDOLE.dependencies,
        *requirements,
    ]
    subprocess.run(command, check=True)


def compressed_bytes(file: Path) -> int:
    """As registries keep it."""
    count = 0
    with file.open("rb") as source:
        process = subprocess.Popen(["gzip", "-6"], stdin=source, stdout=subprocess.PIPE)
        assert process.stdout is not None
        while block := process.stdout.read(1 << 20):
            count += len(block)
    if process.wait():
        raise SystemExit(f"gzip {file} failed")
    return count


def make(name: str) -> None:
    """One image, as a file."""
    file, framework, imports = IMAGES[name]
    started = time.monotonic()
    options = [f"--build-arg=BASE={BASE}", f"--build-arg=FRAMEWORK={framework}", f"--build-arg=IMPORTS={imports}"]
    build(ROOT / "deploy" / "images" / f"{file}.Containerfile", tag_of(name), CONTEXT, *options)
    archive = OUT / f"{name}.tar"
    archive.unlink(missing_ok=True)
    policy = f"--signature-policy={OUT / 'policy.json'}"
    buildah("push", policy, tag_of(name), f"docker-archive:{archive}:{tag_of(name)}")
    sizes = f"{archive.stat().st_size / 1e6:.1f} MB"
    # A framework takes a minute.
    if not framework:
        sizes += f", {compressed_bytes(archive) / 1e6:.1f} MB compressed"
    print(
        f"images: {archive.relative_to(ROOT)}: {tag_of(name)}, {sizes}, {time.monotonic() - started:.0f} s", flush=True
    )


def main(names: list[str]) -> None:
    """Builds the images that are named."""
    if unknown := sorted(set(names) - set(IMAGES)):
        raise SystemExit(f"images: there is no {', '.join(unknown)}; there are {', '.join(IMAGES)}")
    if os.geteuid() != 0:
        raise SystemExit("images: debootstrap and chroot need root; run: sudo make images")
    OUT.mkdir(parents=True, exist_ok=True)
    with (OUT / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"images: others build images in {OUT} at this moment; wait until they are done") from None
        build_all(names)


def build_all(names: list[str]) -> None:
    """With a storage that nobody else uses at the same time."""
    shutil.rmtree(STORAGE, ignore_errors=True)
    set_up_storage()
    try:
        import_base()
        download([word for name in names for word in IMAGES[name][1].split()])
        for name in names:
            make(name)
    finally:
        for mount in (STORAGE / "graph" / "overlay", STORAGE / "run"):
            subprocess.run(["umount", "-q", str(mount)], check=False)
        shutil.rmtree(STORAGE, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ["controller", "worker", "worker-torch"])
