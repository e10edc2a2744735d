"""The tree keeps its rules, and each rule is seen to bite on a tree that breaks it once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import lint
import pytest
import python_rooms
import rooms
import rules
from source_tree import Source, Tree

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree(ROOT)


@functools.cache
def complaints(rule: Callable[[Tree], list[str]], tree: Tree) -> list[str]:
    return rule(tree)


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_tree_keeps(rule: Callable[[Tree], list[str]], tree: Tree) -> None:
    assert not complaints(rule, tree), "\n" + "\n".join(complaints(rule, tree))


# Rule, file to write or extend, text that breaks the rule, part of the complaint.
LONG_CPP = "int Long(int a,\n         int b) {\n" + "  ++a;\n" * 70 + "  return a;\n}\n"
LONG_PYTHON = "def long():\n" + "    x = 1\n" * 71
TWICE = "namespace farandole::worker::shm {\nclass ShmSync {\n};\n}\n"
UPWARDS = "from farandole.library import abi\n"
LATE = "def late():\n    from farandole.launch.keeper import keeper\n    keeper.main()\n"
BREAKS = [
    (rules.file_sizes, "base/huge.h", "// x\n" * 601, "601 lines"),
    (rules.function_sizes, "base/clock.cc", LONG_CPP, "function of 74 lines"),
    (rules.function_sizes, "base/clock.cc", "namespace a {\nclass B {\n public:\n  " + LONG_CPP + "};\n}\n", "of 74"),
    (rules.function_sizes, "scripts/lint.py", LONG_PYTHON, "function of 72 lines"),
    (rooms.edges, "base/clock.cc", '#include "proto/types.h"\n', "base/ must not include"),
    (rooms.edges, "transport/channel.h", '#include "proto/types.h"\n', "transport/ must not include"),
    (rooms.edges, "transport/channel.h", '#include "transport/tcp/socket.h"\n', "transport/ must not include"),
    (rooms.edges, "worker/collective/group.h", '#include "controller/rpc/server.h"\n', "collective/ must not include"),
    (rooms.edges, "worker/shm/shm_sync.h", '#include "worker/schedule/schedule.h"\n', "shm/ must not include"),
    (rooms.edges, "worker/kernels/kernels.cu", '#include "worker/shm/shm_sync.h"\n', "kernels/ must not include"),
    (rooms.edges, "controller/job/job.cc", '#include "controller/hub/hub.h"\n', "job/ must not include"),
    (rooms.edges, "frameworks/c_api.h", '#include "transport/channel.h"\n', "frameworks/ must not include"),
    (rooms.edges, "worker/attic/box.h", "int x;\n", "no room"),
    (rooms.namespaces, "worker/shm/shm_sync.cc", "namespace farandole::worker {\n}\n", "namespace farandole::worker;"),
    (rooms.types_once, "worker/shm/extra.h", TWICE, "is defined in"),
    (python_rooms.edges, "python/farandole/base/locate.py", UPWARDS, "base must not import farandole.library.abi"),
    (
        python_rooms.edges,
        "python/farandole/launch/hosts/hosts.py",
        "import farandole.launch.job.run\n",
        "hosts must not",
    ),
    (
        python_rooms.edges,
        "python/farandole/launch/job/run.py",
        LATE,
        "job must not import farandole.launch.keeper.keeper",
    ),
    (
        python_rooms.edges,
        "python/farandole/torch/memory.py",
        "from farandole.torch import optimizer\n",
        "memory must not",
    ),
    (python_rooms.edges, "python/farandole/session/part.py", "from farandole import run\n", "session must not"),
    (python_rooms.edges, "alias/horovod/_modules.py", UPWARDS, "horovod must not import farandole.library.abi"),
    (
        python_rooms.no_module_cycles,
        "python/farandole/core/handles.py",
        "def late():\n    from farandole.core import collectives\n    collectives.join()\n",
        "in a circle",
    ),
    (python_rooms.edges, "python/farandole/attic/box.py", "x = 1\n", "in no room"),
    (
        python_rooms.started_modules,
        "scripts/build_wheel.py",
        "# farandole." + "launch.attic:main\n",
        "there is no module",
    ),
    (rules.readmes, "scripts/README.md", "May not enter\n" * 20, "scripts/README.md"),
    (
        rules.includes,
        "controller/types/job_status.h",
        "#include <thread>\n",
        "must not come to depend",
    ),
    (rules.includes, "proto/types.cc", "#include <grpcpp/grpcpp.h>\n", "must not come to depend"),
    (rules.banned_calls, "base/auth_test.cc", "void F() { absl::SleepFor(d); }\n", "tests do not sleep"),
    (rules.banned_calls, "base/clock.cc", "auto x = std::chrono::system_clock::now();\n", "only clock"),
    (rules.banned_calls, "base/clock.cc", 'auto x = getenv("A");\n', "environment"),
    (rules.banned_calls, "worker/extra.cc", 'void F() { printf("x"); }\n', "stdout is the user's"),
    (rules.banned_calls, "worker/extra.cc", "void F() { std::cout << 1; }\n", "stdout is the user's"),
    (rules.banned_calls, "base/clock.cc", "int x = rand();\n", "RandomBytes"),
    (rules.banned_calls, "base/clock.cc", "int x = socket(AF_UNIX, SOCK_STREAM, 0);\n", "socket without CLOEXEC"),
    (rules.banned_calls, "base/clock.cc", "void F() { throw 1; }\n", "absl::Status"),
    (rules.banned_calls, "base/clock.cc", "void F() { t.detach(); }\n", "joins"),
    (rules.marker_comments, "base/clock.cc", "// " + "TO" + "DO: later\n", "marker comment"),
    (rules.build_targets, "base/orphan.cc", "int x;\n", "in no BUILD target"),
    (rules.build_targets, "worker/kernels/orphan.cu", "int x;\n", "in no BUILD target"),
    (
        rules.build_targets,
        "base/BUILD",
        'cc_library(\n    name = "two",\n    srcs = ["clock.cc", "auth.cc"],\n)\n',
        "more than one pair",
    ),
    (rules.one_build_system, "base/CMakeLists.txt", "project(x)\n", "Bazel"),
    (rules.secrets_in_launcher, "python/farandole/extra.py", 'a = ["--key", k]\n', "secret"),
    (rules.secrets_in_launcher, "python/farandole/extra.py", 'e["FARANDOLE_TOKEN"] = t\n', "secret"),
    (rules.python_imports, "python/farandole/extra.py", "import grpc\n", "must not import grpc"),
    (rules.python_imports, "python/farandole/extra.py", "a = ctypes.CDLL(x)\n", "second place"),
    (rules.documented_variables, "worker/config.cc", 'auto x = "FARANDOLE_UNHEARD_OF";\n', "FARANDOLE_UNHEARD_OF"),
    (rules.versions, "proto/version.h", 'inline constexpr char kOther[] = "9.9.9";\n', "versions differ"),
]


@pytest.mark.parametrize(("rule", "path", "text", "complaint"), BREAKS)
def test_rule_bites(tree: Tree, rule: Callable[[Tree], list[str]], path: str, text: str, complaint: str) -> None:
    before = complaints(rule, tree)
    new = [c for c in rule(tree.extended(path, text)) if c not in before]
    assert any(complaint in c for c in new), f"the rule did not complain; it said {new}"


def test_a_read_without_the_lock_is_found(tmp_path: Path) -> None:
    text = """#include "absl/synchronization/mutex.h"
class A {
 public:
  int Get() {
    LOCK
    return x_;
  }
 private:
  absl::Mutex mutex_;
  int x_ ABSL_GUARDED_BY(mutex_) = 0;
};
int F(A* a) { return a->Get(); }
"""
    good, bad = tmp_path / "good.cc", tmp_path / "bad.cc"
    good.write_text(text.replace("LOCK", "absl::MutexLock lock(&mutex_);"))
    bad.write_text(text.replace("LOCK", ""))
    assert lint.thread_safety([str(good)])
    assert not lint.thread_safety([str(bad)])


@pytest.mark.parametrize(
    ("table", "room", "other"),
    [(rooms.MAY_INCLUDE, "base", "worker/shm"), (python_rooms.MAY_IMPORT, "base", "launch.job")],
)
def test_a_circle_of_rooms_is_found(
    table: dict[str, tuple[str, ...]], room: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not rooms.cycle(table)
    monkeypatch.setitem(table, room, (other,))
    assert {room, other} <= set(rooms.cycle(table))


def test_share_of_large_files_bites(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    for i in range(9):
        (tmp_path / "base" / f"a{i}.h").write_text("\n")
    (tmp_path / "base" / "large.h").write_text("\n" * 401)
    assert not rules.file_sizes(Tree(tmp_path))
    (tmp_path / "base" / "a0.h").write_text("\n" * 402)
    assert "one of 2 files over 400" in rules.file_sizes(Tree(tmp_path))[0]


def test_functions_are_found_between_other_braces() -> None:
    text = """namespace a {
struct B : C<int(int)> {
  int x = 1;
  B() : x{2} {}
  int Get() const {
    auto f = [] { return '{'; };
    return f();  // }
  }
};
const int kTable[] = {1, 2};
template <typename T>
T F(T t) {
  return t;
}
}  // namespace a
"""
    found = rules.cpp_functions(Source("x.cc", text))
    assert (5, 8) in found and (11, 14) in found
