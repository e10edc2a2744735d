"""What is in the wheel, and what it needs."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from installed import ROOT, Installed

# Every manylinux policy has these.
PLATFORM = re.compile(r"(libc|libm|libgcc_s|libstdc\+\+|libpthread|libdl|librt|libz|ld-linux-x86-64)\.so")


def run(*command: object) -> str:
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def needed(file: Path) -> list[str]:
    return re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", file))


def test_library_exports_the_c_abi_and_nothing_else(installed: Installed) -> None:
    # Weak and GNU_UNIQUE symbols are listed here, too.
    exported = {line.split()[-1] for line in run("nm", "-D", "--defined-only", installed.library).splitlines()}
    header = (ROOT / "frameworks" / "c_api.h").read_text()
    assert exported == set(re.findall(r"^FARANDOLE_API .*?\b(farandole_\w+)\(", header, re.MULTILINE))


def test_library_needs_only_the_platform(installed: Installed) -> None:
    foreign = [name for name in needed(installed.library) if not PLATFORM.match(name)]
    assert not foreign
    dynamic = run("objdump", "-p", installed.library)
    assert "RPATH" not in dynamic and "RUNPATH" not in dynamic


@pytest.mark.parametrize("framework", ["jax", "mxnet", "tensorflow", "torch"])
def test_library_of_a_framework_exports_what_is_looked_up_and_needs_only_the_platform(
    installed: Installed, framework: str
) -> None:
    library = installed.library.with_name(f"libfarandole_{framework}.so")
    assert not [name for name in needed(library) if not PLATFORM.match(name)]
    exported = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library).splitlines()}
    sources = (installed.site / "farandole").rglob("*.py")
    looked_up = {n for p in sources for n in re.findall(rf"\bfarandole_{framework}_\w+", p.read_text())}
    assert exported and exported <= looked_up
    # What has neither a version nor is weak would be the framework's.
    undefined = [line.split() for line in run("nm", "-D", "--undefined-only", library).splitlines()]
    assert not [name for kind, name in undefined if kind != "w" and "@" not in name]


def test_the_front_end_for_torch_loads_no_library_of_another_framework(installed: Installed, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import re\nimport farandole.torch as hvd\nhvd.init()\n"
        "print(*sorted(set(re.findall(r'libfarandole\\w*', open('/proc/self/maps').read()))))\n"
    )
    done = installed.run(1, script)
    assert done.returncode == 0 and "libfarandole\n" in done.stdout, done.stdout
    assert not set(re.findall(r"libfarandole_(\w+)", done.stdout)) - {"torch"}, done.stdout


def test_no_other_shared_object_is_where_a_user_process_would_load_it(installed: Installed) -> None:
    libraries = [p.relative_to(installed.site) for p in installed.site.rglob("*.so*")]
    inside = [p.as_posix() for p in libraries if p.parts[0] != "farandole.libs"]
    # The others are loaded when their front end calls them for the first time.
    names = ["", "_jax", "_mxnet", "_tensorflow", "_torch"]
    assert sorted(inside) == sorted(f"farandole/lib/libfarandole{name}.so" for name in names)


def test_every_module_of_the_package_is_there(installed: Installed) -> None:
    tree, package = ROOT / "python" / "farandole", installed.site / "farandole"
    modules = {p.relative_to(package) for p in package.rglob("*.py")} - {Path("examples/query_controller.py")}
    assert modules == {p.relative_to(tree) for p in tree.rglob("*.py")}


def test_the_page_of_the_dashboard_is_there(installed: Installed) -> None:
    page = Path("farandole", "launch", "dashboard", "page")
    files = {file.name: file.read_bytes() for file in (installed.site / page).iterdir()}
    assert "page.html" in files
    assert files == {file.name: file.read_bytes() for file in (ROOT / "python" / page).iterdir()}


def test_executables_find_their_libraries_in_the_wheel(installed: Installed) -> None:
    names = [e.name for e in installed.executables]
    assert names == ["farandole-agent", "farandole-controller", "farandole-perf"]
    for executable in installed.executables:
        resolved = dict(re.findall(r"^\s*(\S+) => (\S+)", run("ldd", executable), re.MULTILINE))
        assert any("libgrpc" in name for name in resolved)
        for name, path in resolved.items():
            inside = Path(path).resolve().is_relative_to(installed.site)
            assert inside or PLATFORM.match(name), f"{executable.name} takes {name} from {path}"


def test_executables_start(installed: Installed) -> None:
    for executable in installed.executables:
        done = subprocess.run([executable, "--no-such-flag"], capture_output=True, text=True, timeout=10)
        assert done.returncode == 2, done.stderr


def test_metadata(installed: Installed) -> None:
    assert re.fullmatch(r"farandole-\d+\.\d+\.\d+-py3-none-manylinux_2_(\d+)_x86_64\.whl", installed.wheel.name)
    (info,) = installed.site.glob("*.dist-info")
    metadata = Parser().parsestr((info / "METADATA").read_text())
    assert metadata["Requires-Python"] == ">=3.9"
    assert metadata["License-Expression"] == "Apache-2.0"
    licenses = {p.name for p in (info / "licenses").iterdir()}
    assert licenses == set(metadata.get_all("License-File"))
    carried = {re.split(r"[-.]", p.name)[0] for p in (installed.site / "farandole.libs").iterdir()}
    for library, package in (("libgrpc", "libgrpc29"), ("libprotobuf", "libprotobuf32"), ("libcares", "libc-ares2")):
        assert library in carried and f"{package}.txt" in licenses
    assert "Apache License" in (info / "licenses" / "LICENSE").read_text()


def test_executables_are_executable(installed: Installed) -> None:
    modes = {i.filename: i.external_attr >> 16 for i in zipfile.ZipFile(installed.wheel).infolist()}
    for name in ("agent", "controller", "perf"):
        assert modes[f"farandole/bin/farandole-{name}"] & 0o111 == 0o111
    assert not any("__pycache__" in name for name in modes)


def test_it_needs_no_more_packages_and_room_than_is_known(installed: Installed) -> None:
    """Who adds to either says so here: users install it on each of their machines."""
    (info,) = installed.site.glob("*.dist-info")
    metadata = Parser().parsestr((info / "METADATA").read_text())
    always = [needs for needs in metadata.get_all("Requires-Dist") if "extra ==" not in needs]
    assert always == ["cloudpickle", "PyYAML"]
    assert installed.wheel.stat().st_size < 12.5e6


def test_the_kernels_for_gpus_are_in_the_library(installed: Installed) -> None:
    # As text, which the driver compiles; a build without clang leaves them out, and `make wheel` installs that.
    assert b".target sm_" in installed.library.read_bytes()


def test_alias(installed: Installed) -> None:
    """The wheel with Horovod's names holds no copy of anything, is never pulled in, and pulls in the other."""
    assert re.fullmatch(r"farandole_horovod-\d+\.\d+\.\d+-py3-none-any\.whl", installed.alias_wheel.name)
    files = {i.filename for i in zipfile.ZipFile(installed.alias_wheel).infolist()}
    assert {name.split("/")[0] for name in files if ".dist-info/" not in name} == {"horovod"}
    (info,) = installed.alias_site.glob("*.dist-info")
    metadata = Parser().parsestr((info / "METADATA").read_text())
    (ours,) = installed.site.glob("*.dist-info")
    version = Parser().parsestr((ours / "METADATA").read_text())["Version"]
    assert metadata["Name"] == "farandole-horovod" and metadata["Version"] == version
    assert metadata.get_all("Requires-Dist") == [f"farandole=={version}", "packaging"]
    assert "horovod" not in str(Parser().parsestr((ours / "METADATA").read_text()).get_all("Requires-Dist"))
    assert (installed.alias_site / "bin" / "horovodrun").exists()
    path = f"{installed.site}:{installed.alias_site}"
    command = "import horovod.torch, farandole.torch; assert horovod.torch is farandole.torch; print(horovod.__file__)"
    printed = run("env", f"PYTHONPATH={path}", sys.executable, "-c", command)
    assert printed.startswith(str(installed.alias_site))
