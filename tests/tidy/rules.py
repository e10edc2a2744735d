"""The rules of the tree that no tool knows. Each takes a Tree and returns complaints, "path:line: sentence"."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable

import python_rooms
import rooms
from source_tree import CPP, Source, Tree

FILE_LINES_MAX = 600
FILE_LINES_USUAL = 400
LARGE_FILES_ONE_IN = 10
FUNCTION_LINES_MAX = 70
README_LINES_MAX = 16

# What enters a user's process: the closure of these must know neither gRPC nor a protobuf runtime.
EMBEDDED = tuple(f"frameworks/c_api{part}.cc" for part in ("", "_gpu", "_operations", "_process_sets"))
# The controller's decisions: the closure of this must have no thread, no I/O, no clock.
PURE = "controller/job/job.h"
RUNTIMES = ("grpc", "google/protobuf", ".pb.h")
IMPURE = RUNTIMES + ("thread", "mutex", "chrono", "sys/", "unistd.h", "absl/synchronization", "base/event_loop.h")


def file_sizes(tree: Tree) -> list[str]:
    """No file above the bound, and nine of ten well below."""
    lines = {s.path: s.text.count("\n") for s in tree.having(".cc", ".cu", ".h", ".py", ".sh", ".bzl", ".proto")}
    bad = [f"{path}:1: {n} lines, {FILE_LINES_MAX} allowed" for path, n in lines.items() if n > FILE_LINES_MAX]
    large = sorted((path for path, n in lines.items() if n > FILE_LINES_USUAL), key=lines.__getitem__)
    if len(large) * LARGE_FILES_ONE_IN > len(lines):
        bad.append(f"{large[-1]}:1: one of {len(large)} files over {FILE_LINES_USUAL} lines, of {len(lines)} in all")
    return bad


_SCOPE = re.compile(r'^\s*(?:template\s*<.*>\s*)?(?:inline\s+)?(?:namespace|class|struct|enum|union|extern\s*"")', re.S)


@functools.cache
def cpp_functions(source: Source) -> list[tuple[int, int]]:
    """First and last line of every function body with its signature, outermost functions only."""
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", "", source.code, flags=re.MULTILINE)
    found, depth_inside, start, begin = [], 0, 0, 0
    for match in re.finditer(r"[{};]|\b(?:public|private|protected)\s*:", code):
        token = match.group()[0]
        if depth_inside:
            depth_inside += {"{": 1, "}": -1}.get(token, 0)
            if depth_inside == 0:
                found.append((begin, code.count("\n", 0, match.start()) + 1))
        elif token == "{":
            head = code[start : match.start()]
            if not _SCOPE.match(head):
                depth_inside = 1
                begin = code.count("\n", 0, start + len(head) - len(head.lstrip())) + 1
        start = start if depth_inside else match.end()
    return found


@functools.cache
def python_functions(source: Source) -> list[tuple[int, int]]:
    """First and last line of every function."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(n.lineno, n.end_lineno or n.lineno) for n in source.nodes if isinstance(n, kinds)]


def function_sizes(tree: Tree) -> list[str]:
    """No function, C++ or Python, above the bound."""
    bad = []
    for source in tree.having(*CPP, ".py"):
        functions = python_functions(source) if source.suffix == ".py" else cpp_functions(source)
        bad += [
            f"{source.path}:{first}: function of {last - first + 1} lines, {FUNCTION_LINES_MAX} allowed"
            for first, last in functions
            if last - first + 1 > FUNCTION_LINES_MAX
        ]
    return bad


def includes(tree: Tree) -> list[str]:
    """What is pure or embedded stays so, through all headers."""
    bad = []
    for start, banned in (*((file, RUNTIMES) for file in EMBEDDED), (PURE, IMPURE)):
        for source in tree.pair_closure(start):
            for line, name in source.includes:
                if name.startswith(banned) or name.endswith(".pb.h"):
                    bad.append(f"{source.path}:{line}: {start} must not come to depend on <{name}>")
    return bad


# Where, what, instead. Matched against C++ without comments and literals.
_PRODUCT = ("agent/", "base/", "controller/", "frameworks/", "perf/", "proto/", "transport/", "worker/")
_IN_USER_PROCESS = ("base/", "controller/", "frameworks/", "proto/", "transport/", "worker/")
_READS_ENVIRONMENT = re.compile(r"(^worker/config\.cc|/options\.cc|_main\.cc|/main\.cc)$")
# protozero reports by exceptions; the codec turns all of them into a Status.
_MAY_THROW = ("proto/codec/codec_reader.h",)
BANNED_CALLS: list[tuple[str, Callable[[Source], bool], str]] = [
    (r"\b(sleep_for|sleep_until|SleepFor|usleep|nanosleep|sleep)\s*\(", lambda s: s.is_test, "tests do not sleep"),
    (
        r"\bsystem_clock\b|\bgettimeofday\b|\bCLOCK_REALTIME\b|\babsl::Now\b|\btime\s*\(\s*(nullptr|NULL|0)\s*\)",
        lambda s: True,
        "base/clock.h is the only clock",
    ),
    (
        r"\b(secure_)?getenv\s*\(|\benviron\b",
        lambda s: s.path.startswith(_PRODUCT) and not s.is_test and not _READS_ENVIRONMENT.search(s.path),
        "the environment is read in worker/config.cc, options and main files",
    ),
    (
        r"\bstd::cout\b|(?<![\w:])printf\s*\(|\bputs\s*\(|\bputchar\s*\(|\bstdout\b",
        lambda s: s.path.startswith(_IN_USER_PROCESS) and not s.path.endswith(("_main.cc", "_test.cc")),
        "stdout is the user's",
    ),
    (r"\b(s?rand|rand_r|srandom)\s*\(", lambda s: True, "RandomBytes, or a seeded std::mt19937 in tests"),
    (r"\b(strcpy|strcat|sprintf|vsprintf|gets|system|popen|tmpnam)\s*\(", lambda s: True, "unsafe"),
    (r"\bthrow\b", lambda s: s.path.startswith(_PRODUCT) and s.path not in _MAY_THROW, "absl::Status at boundaries"),
    (r"\.detach\s*\(\s*\)", lambda s: True, "every thread has an owner that joins it"),
    (r"\busing\s+namespace\b", lambda s: True, "name what is used"),
    (r"(?<![\w:.>])(pipe|accept|dup|epoll_create|inotify_init)\s*\(", lambda s: True, "use the form with CLOEXEC"),
]
_DESCRIPTOR_MAKERS = re.compile(
    # A call, not a declaration: no type before the name.
    r"(?:^|[=(,!&|?:;{}]|\breturn)\s*(?:::)?(socket|socketpair|open|openat|accept4|memfd_create|epoll_create1|eventfd|timerfd_create|pipe2|"
    r"signalfd|inotify_init1)\s*\(([^;]*);",
    re.MULTILINE,
)


@functools.cache
def _banned_in(source: Source) -> list[str]:
    bad = []
    for pattern, applies, instead in BANNED_CALLS:
        if applies(source):
            for match in re.finditer(pattern, source.code):
                line = source.code.count("\n", 0, match.start()) + 1
                bad.append(f"{source.path}:{line}: {match.group().strip()}: {instead}")
    for match in _DESCRIPTOR_MAKERS.finditer(source.code):
        if "CLOEXEC" not in match.group(2):
            line = source.code.count("\n", 0, match.start()) + 1
            bad.append(f"{source.path}:{line}: {match.group(1)} without CLOEXEC")
    return bad


def banned_calls(tree: Tree) -> list[str]:
    """The table above, and: every descriptor is made with CLOEXEC."""
    return [complaint for source in tree.cpp for complaint in _banned_in(source)]


def marker_comments(tree: Tree) -> list[str]:
    """What is left to do stands in an issue, not in the code."""
    # Put together so that this file does not match.
    marker = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK")) + r")\b")
    return [
        f"{source.path}:{number}: marker comment"
        for source in tree.sources.values()
        for number, line in enumerate(source.text.splitlines(), 1)
        if marker.search(line)
    ]


def build_targets(tree: Tree) -> list[str]:
    """Every C++ file belongs to one target, which bears its name and holds at most that .h and .cc."""
    bad = []
    owner: dict[str, str] = {}
    for source in tree.sources.values():
        if not source.path.endswith("/BUILD") or source.folder == "third_party":
            continue
        package = source.path[: -len("/BUILD")]
        for call in source.nodes:
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
                continue
            # Bazel has no rule for GPU kernels: theirs is a general one, which names the headers, too.
            suffixes = (".cc", ".h") if call.func.id.startswith("cc_") else (".cu",)
            literal = {k.arg: k.value for k in call.keywords if k.arg in ("name", "srcs", "hdrs")}
            files = [
                element.value
                for key in ("srcs", "hdrs")
                for element in getattr(literal.get(key), "elts", [])
                if isinstance(element, ast.Constant) and element.value.endswith(suffixes)
            ]
            name = getattr(literal.get("name"), "value", "?")
            stems = {re.sub(r"\.(cc|h)$", "", file) for file in files}
            if len(stems) > 1:
                bad.append(f"{source.path}:{call.lineno}: target {name} holds more than one pair: {sorted(stems)}")
            for file in files:
                if owner.setdefault(f"{package}/{file}", name) != name:
                    bad.append(f"{source.path}:{call.lineno}: {file} is in {owner[f'{package}/{file}']} and in {name}")
    bad += [f"{s.path}:1: in no BUILD target" for s in tree.cpp if s.path not in owner and s.folder != "third_party"]
    return bad


def one_build_system(tree: Tree) -> list[str]:
    """Bazel builds everything."""
    foreign = re.compile(r"(^|/)(CMakeLists\.txt|.*\.cmake|configure(\.ac)?|meson\.build|setup\.py)$")
    return [f"{path}:1: Bazel is the build system" for path in tree.sources if foreign.search(path)]


def secrets_in_launcher(tree: Tree) -> list[str]:
    """Keys and tokens travel by descriptor: no option with a value, no environment variable but for the path of one."""
    option = re.compile(r"""["']--(key|token)(=|["'])""")
    variable = re.compile(r"""["'](FARANDOLE|HOROVOD)_\w*(KEY|TOKEN|SECRET|PASSWORD)(?!_FILE)\w*["']""")
    product = [s for s in tree.having(*CPP, ".py") if not s.is_test]
    return [
        f"{source.path}:{number}: a secret in argv or environment"
        for source in product
        for number, line in enumerate(source.text.splitlines(), 1)
        if option.search(line) or variable.search(line)
    ]


def python_imports(tree: Tree) -> list[str]:
    """The package brings no gRPC and no protobuf into the user's process, and loads one library in one place."""
    bad = []
    loaders: dict[str, int] = {}
    for source in tree.having(".py"):
        if not source.path.startswith("python/") or source.is_test:
            continue
        for node in source.nodes:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            bad += [
                f"{source.path}:{node.lineno}: must not import {name}"
                for name in names
                if name.split(".")[0] in ("grpc", "google", "tests")
            ]
            if isinstance(node, ast.Attribute) and node.attr in ("CDLL", "PyDLL", "LoadLibrary"):
                loaders[source.path] = node.lineno
    first, *others = loaders.items() or [("", 0)]
    return bad + [f"{path}:{line}: a second place that loads a library, besides {first[0]}" for path, line in others]


def versions(tree: Tree) -> list[str]:
    """One release number for everything."""
    found = {
        path: re.findall(r'"(\d+\.\d+\.\d+)"', tree.sources[path].text) if path in tree.sources else []
        for path in ("proto/version.h", "python/farandole/version.py")
    }
    same = len({tuple(v) for v in found.values()}) == 1 and all(len(v) == 1 for v in found.values())
    return [] if same else [f"proto/version.h:1: versions differ or are missing: {found}"]


def documented_variables(tree: Tree) -> list[str]:
    """Every environment variable that the sources name stands in docs/configuration.md."""
    page = tree.root / "docs" / "configuration.md"
    known = set(re.findall(r"`(\w+)`", page.read_text())) if page.exists() else set()
    product = [s for s in tree.having(*CPP, ".py") if not s.is_test and s.folder != "scripts"]
    return [
        f"{source.path}:{source.text.count(chr(10), 0, m.start()) + 1}: {m.group(1)} is not in docs/configuration.md"
        for source in product
        for m in re.finditer(r'"((?:FARANDOLE|HOROVOD)_[A-Z_]+)"', source.text)
        if m.group(1) not in known
    ]


def readmes(tree: Tree) -> list[str]:
    """Every top-level folder says in about ten lines what lives there, where to begin, and what may not enter."""
    bad = []
    for folder in sorted({source.folder for source in tree.sources.values()}):
        page = tree.sources.get(f"{folder}/README.md")
        if page is None:
            bad.append(f"{folder}/README.md:1: missing")
        elif page.text.count("\n") > README_LINES_MAX or "May not enter" not in page.text:
            bad.append(f"{folder}/README.md:1: more than {README_LINES_MAX} lines, or no word on what may not enter")
    return bad


RULES: list[Callable[[Tree], list[str]]] = [
    file_sizes,
    function_sizes,
    includes,
    rooms.edges,
    rooms.no_cycles,
    rooms.namespaces,
    rooms.types_once,
    python_rooms.edges,
    python_rooms.no_cycles,
    python_rooms.no_module_cycles,
    python_rooms.started_modules,
    banned_calls,
    marker_comments,
    build_targets,
    one_build_system,
    secrets_in_launcher,
    python_imports,
    versions,
    documented_variables,
    readmes,
]
