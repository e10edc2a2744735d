"""Every C++ test under a sanitizer: run_sanitizer.py asan|tsan. Ends with one line `N passed, M failed`.

asan: AddressSanitizer and UndefinedBehaviorSanitizer, all tests. tsan: ThreadSanitizer with abseil from source, as a
mutex that it has not instrumented tells it nothing; tests that link gRPC, which brings an abseil of its own, are left
out. Nothing of ours is suppressed (tests/sanitizers). BAZEL: another bazel, or options that come first.
"""

from __future__ import annotations

import os
import subprocess
import sys

import run_tests
from run_tests import OUT, ROOT, Tally

TESTS = "tests(//...) except attr(tags, manual, //...)"
# Those of tests/nccl need files of NVIDIA's, which only `make test-nccl` fetches.
TARGETS = {"asan": TESTS, "tsan": f"{TESTS} except rdeps(//... except //tests/nccl/..., @system//:grpc)"}
SETTINGS = {
    "asan": ["ASAN_OPTIONS=detect_stack_use_after_return=1", "UBSAN_OPTIONS=print_stacktrace=1"],
    "tsan": [f"TSAN_OPTIONS=suppressions={ROOT}/tests/sanitizers/tsan.supp:second_deadlock_stack=1"],
}


def main() -> int:
    """Builds and runs them all, also after a failure."""
    if len(sys.argv) != 2 or sys.argv[1] not in TARGETS:
        sys.exit("usage: run_sanitizer.py asan|tsan")
    kind = sys.argv[1]
    OUT.mkdir(parents=True, exist_ok=True)
    bazel = os.environ.get("BAZEL", "bazel").split()
    query = subprocess.run([*bazel, "query", TARGETS[kind]], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    tests = query.stdout.split()
    events = OUT / f"bazel-{kind}.json"
    events.unlink(missing_ok=True)
    options = [f"--config={kind}", "--keep_going", f"--build_event_json_file={events}"]
    options += [f"--test_env={setting}" for setting in SETTINGS[kind]]
    code = subprocess.run([*bazel, "test", *options, *tests], cwd=ROOT).returncode
    total = run_tests.read_build_events(events) if events.exists() else Tally()
    if code:
        run_tests.at_least_one_failure(total, f"bazel test --config={kind}: exit code {code}")
    for name in total.failed:
        print(f"FAILED {name}")
    print(f"{len(tests)} targets under {kind}: {total.passed} passed, {len(total.failed)} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
