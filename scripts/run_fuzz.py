"""Fuzzes every target of tests/fuzz for so many minutes each: run_fuzz.py MINUTES [TARGET...].

The targets are compiled by clang with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer, from the sources that
Bazel names, into build/fuzz. What is found lies there, too: play it with build/fuzz/TARGET FILE, mend it, and put the
file into tests/fuzz/corpus/TARGET, which `bazel test //tests/fuzz:all` plays without a fuzzer.
"""

from __future__ import annotations

import concurrent.futures
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "build" / "fuzz"
CLANG = "clang++-14"
SANITIZERS = "address,undefined"
FLAGS = ["-std=c++17", "-O1", "-g1", "-w", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined", "-I."]
RSS_MIB_MAX = 2048
INPUT_SECONDS_MAX = 20
# The system's libraries that the tree links; those of which a target needs nothing are not loaded.
LIBRARIES = re.compile(r'"(-l(?:absl_\w+|:libsodium\.a))"')


def sources_of(target: str) -> list[str]:
    """The C++ files of the tree that a target is made of."""
    query = f'kind("source file", deps(//tests/fuzz:{target}_fuzz)) intersect //...:*'
    lines = subprocess.run(["bazel", "query", query], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    paths = [line.removeprefix("//").replace(":", "/") for line in lines.split()]
    return sorted(path for path in paths if path.endswith(".cc"))


def compile_one(source: str) -> Path:
    """Compiles one file; `make clean` removes what it makes."""
    made = OUT / "objects" / (source.replace("/", "_") + ".o")
    made.parent.mkdir(parents=True, exist_ok=True)
    command = [CLANG, *FLAGS, f"-fsanitize=fuzzer-no-link,{SANITIZERS}", "-c", source, "-o", str(made)]
    subprocess.run(command, cwd=ROOT, check=True)
    return made


def build(target: str, made: dict[str, Path]) -> Path:
    """Compiles what is not in `made` and links the target."""
    sources = sources_of(target)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = {source: pool.submit(compile_one, source) for source in sources if source not in made}
        made.update({source: future.result() for source, future in futures.items()})
    libraries = LIBRARIES.findall((ROOT / "third_party/system/system.BUILD").read_text())
    objects = [str(made[source]) for source in sources]
    fuzzer = OUT / target
    # A target may be the library that the tree opens at run time: it exports its symbols.
    command = [CLANG, f"-fsanitize=fuzzer,{SANITIZERS}", "-rdynamic", *objects, "-Wl,--as-needed", *libraries]
    command += ["-o", str(fuzzer)]
    subprocess.run(command, check=True)
    return fuzzer


def fuzz(fuzzer: Path, minutes: float) -> int:
    """Fuzzes from the corpus in the tree and what earlier runs have found; the fuzzer's exit code."""
    found = OUT / "corpus" / fuzzer.name
    found.mkdir(parents=True, exist_ok=True)
    options = [f"-max_total_time={int(minutes * 60)}", f"-rss_limit_mb={RSS_MIB_MAX}", f"-timeout={INPUT_SECONDS_MAX}"]
    options += [f"-artifact_prefix={OUT}/{fuzzer.name}-", "-print_final_stats=1"]
    corpus = ROOT / "tests/fuzz/corpus" / fuzzer.name
    return subprocess.run([str(fuzzer), *options, str(found), str(corpus)], cwd=ROOT).returncode


def main() -> int:
    """Builds all, then fuzzes one after the other; ends with the first that finds something."""
    if len(sys.argv) < 2:
        sys.exit("usage: run_fuzz.py MINUTES [TARGET...]")
    targets = sys.argv[2:] or sorted(path.name for path in (ROOT / "tests/fuzz/corpus").iterdir())
    made: dict[str, Path] = {}
    fuzzers = [build(target, made) for target in targets]
    for fuzzer in fuzzers:
        if code := fuzz(fuzzer, float(sys.argv[1])):
            print(f"fuzz: {fuzzer.name} found something; the input is {OUT}/{fuzzer.name}-*")
            return code
    print(f"fuzz: {', '.join(targets)}: {sys.argv[1]} minutes each, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
