"""What `farandole status` finds and shows, without a job."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import processes
import pytest
from job_statuses import status
from rich.console import Console

from farandole.launch.status import job_files, jobs, query, screen, view

COMMAND = [sys.executable, "-m", "farandole", "status"]


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runtime"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder


def test_a_job_is_found_while_its_launcher_runs(runtime: Path) -> None:
    job_files.write("run-1", "127.0.0.1:5", "secret", 4, ("python", "train.py"))
    path = runtime / "farandole" / "run-1"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    (found,) = job_files.read_all()
    assert found.job == "run-1" and found.controller == "127.0.0.1:5" and found.token == "secret"
    assert found.pid == os.getpid() and found.processes == 4 and found.command == ("python", "train.py")
    job_files.remove("run-1")
    assert job_files.read_all() == []


def test_what_a_killed_launcher_leaves_is_removed(runtime: Path) -> None:
    body = "from farandole.launch.status import job_files; job_files.write('run-2', '127.0.0.1:5', 'secret', 1, ['x'])"
    subprocess.run([sys.executable, "-c", body], check=True, env=processes.environment())
    assert (runtime / "farandole" / "run-2").exists()
    assert job_files.read_all() == []
    assert not (runtime / "farandole" / "run-2").exists()


def test_a_folder_that_others_may_look_into_is_not_used(runtime: Path) -> None:
    (runtime / "farandole").mkdir()
    (runtime / "farandole").chmod(0o755)
    with pytest.raises(PermissionError, match="only this user"):
        job_files.write("run-3", "127.0.0.1:5", "secret", 1, ("x",))
    assert job_files.read_all() == []


def test_without_a_runtime_folder_of_ours_it_is_in_tmp(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime.chmod(0o755)
    assert job_files.folder() == f"/tmp/farandole-{os.getuid()}"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert job_files.folder() == f"/tmp/farandole-{os.getuid()}"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        ([], 0, "no job of this user runs on this host"),
        (["run-7"], 1, "no job of this user on this host begins with 'run-7'"),
        (["--controller", "127.0.0.1:1"], 2, "go together"),
        (["--controller", "127.0.0.1:1", "--job", "a", "--token-file", "/no/such/file"], 2, "/no/such/file"),
    ],
)
def test_command_line(runtime: Path, tmp_path: Path, arguments: list[str], code: int, sentence: str) -> None:
    with processes.running([*COMMAND, *arguments], tmp_path, {"XDG_RUNTIME_DIR": str(runtime)}) as job:
        assert job.wait() == code, job.report()
    assert sentence in job.stdout + job.stderr


def test_no_job_is_no_json(runtime: Path, tmp_path: Path) -> None:
    with processes.running([*COMMAND, "--json"], tmp_path, {"XDG_RUNTIME_DIR": str(runtime)}) as job:
        assert job.wait() == 0 and job.stdout + job.stderr == "", job.report()


def test_view_of_a_replay() -> None:
    lines = view.lines(view.page(status(2), ("python", "train.py")))
    assert lines == [
        "job run-1: python train.py",
        "replaying, 2 ranks on 1 host, generation 1, phase 3",
        "between ranks: CPU tensors by hier (not verbs: rank 0 (pid 1 on host h): no device)",
        "replay of 5 batches with 161 tensors: 12,345 repetitions, for 3 min 5 s",
        "all ranks: 1.2 GB/s, 480 batches/s, 4,100 tensors/s; 12.3 MB in 1,610 tensors and 10 batches so far, "
        "20 control messages",
        "signature cache: 99.0% of 100 announcements",
        "nobody waits for anybody",
        "",
        "rank  host   pid  late (mean)   (most)  last    tensors   bytes  condition",
        "   0     h  1000       0.0 ms  20.0 ms     0  1,234,567  5.0 GB  ok",
        "   1     h  1001       1.5 ms  20.0 ms     1  1,234,567  5.0 GB  ok",
    ]
    assert view.line(status(2)) == "run-1: replaying, 2 ranks; 1.2 GB/s"


def test_view_of_ranks_on_gpus() -> None:
    on_gpus = status(3)
    times = {"waitedUs": "18000", "packedUs": "150", "ncclUs": "4500", "unpackedUs": "0"}
    on_gpus["members"][1]["deviceTime"] = {"batches": "3", **times}
    on_gpus["members"][2]["deviceTime"] = {"batches": "1", **times}
    page = view.page(on_gpus)
    assert (
        "GPUs, a batch in the mean of 4 measured: waited 9.00 ms for its tensors, packed 0.07 ms, NCCL 2.25 ms, "
        "unpacked 0.00 ms"
    ) in page.sentences
    at = page.rows[0].index("GPU ms (wait+pack+NCCL+unpack)")
    assert [row[at] for row in page.rows[1:]] == ["-", "6.00+0.05+1.50+0.00", "18.00+0.15+4.50+0.00"]
    # The first column to go, and no more of them than without it.
    assert view.fitting(page.rows, 100) == view.page(status(3)).rows
    assert view.fitting(page.rows, 60) == view.fitting(view.page(status(3)).rows, 60)


def test_view_of_waits_and_of_those_who_do_not_answer() -> None:
    bad = status(
        3, waits=[{"text": "for 12 s ranks 0 and 1 have waited for rank 2"}], state="JOB_STATE_FAILED", reason="why"
    )
    bad["members"][2].update(responsive=False, cause="is stopped by a signal")
    lines = view.lines(view.page(bad))
    assert "failed, 3 ranks on 1 host, generation 1, phase 3: why" in lines
    assert "! for 12 s ranks 0 and 1 have waited for rank 2" in lines
    assert lines[-1].endswith("unresponsive: is stopped by a signal")
    assert view.line(bad) == (
        "run-1: failed, 3 ranks; 1 unresponsive; for 12 s ranks 0 and 1 have waited for rank 2; why"
    )


def test_of_many_ranks_the_latest_are_shown() -> None:
    lines = view.lines(view.page(status(1000)))
    assert lines[-1] == "984 more ranks, less late than these"
    shown = [line.split()[0] for line in lines[lines.index("") + 2 : -1]]
    assert shown == [str(rank) for rank in range(984, 1000)]


def test_a_narrow_terminal_is_told_the_condition_and_whole_sentences() -> None:
    sentence = "for 12 s rank 0 has waited for rank 1 with `conv1.weight`; rank 1 has submitted nothing else"
    page = view.page(status(2, waits=[{"text": sentence}]), ("python", "train.py", "--a-long-argument=" + 40 * "x"))
    wide = view.lines(page, 200)
    assert wide == view.lines(page) and "tensors" in view.fitting(page.rows, 80)[0]
    narrow = view.lines(page, 40)
    assert max(map(len, narrow)) <= 40
    assert f"! {sentence}" in " ".join(narrow)
    assert narrow[-3:] == [
        "rank  host   pid  late (mean)  condition",
        "   0     h  1000       0.0 ms  ok",
        "   1     h  1001       1.5 ms  ok",
    ]
    assert view.lines(page, 8)[-1] == "   1  ok"


def test_a_script_given_as_text_is_shown_in_one_line() -> None:
    command = ("python", "-c", "import horovod.torch as hvd\nhvd.init()\n")
    told = "python -c import horovod.torch as hvd hvd.init()"
    assert view.lines(view.page(status(2), command))[0] == f"job run-1: {told}"
    names = [("run-1", view.brief(view.summarize(status(2))), command), ("longer-name", "no answer", ("train",))]
    assert view.job_list(names) == [
        f"run-1        replaying, 2 ranks; 1.2 GB/s  ({told})",
        "longer-name  no answer  (train)",
    ]


def test_why_the_page_is_old_stands_above_it_in_whole_sentences() -> None:
    alert = "! 127.0.0.1:1 does not answer; the launcher (pid 12) starts it again, the ranks go on without it meanwhile"
    page = replace(view.page(status(2)), alert=alert)
    assert view.lines(page)[:3] == [alert, "", "job run-1"]
    narrow = view.lines(page, 40)
    assert max(map(len, narrow)) <= 40
    assert " ".join(narrow[: narrow.index("")]) == alert


def test_only_a_rank_that_does_not_answer_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = status(3)
    bad["members"][1].update(left=True, responsive=False, cause="")
    bad["members"][2].update(responsive=False, cause="is stopped by a signal")
    for name in ("NO_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)
    printed = io.StringIO()
    Console(force_terminal=True, color_system="standard", width=120, file=printed).print(
        screen.group(view.page(bad), 120)
    )
    rows = printed.getvalue().splitlines()[-3:]
    assert [view.LEFT in row for row in rows] == [False, True, False]
    assert ["\x1b[31m" in row for row in rows] == [False, False, True]


def test_a_job_that_ends_while_it_is_asked_has_not_failed(runtime: Path) -> None:
    job_files.write("run-1", "127.0.0.1:5", "secret", 4, ("python", "train.py"))
    (file,) = job_files.read_all()
    gone = query.QueryError(query.NO_ANSWER, "does not answer")
    job = jobs.Job(query.Target("run-1", "127.0.0.1:5"), file)
    assert "starts it again" in job.explain(gone)
    job_files.remove("run-1")
    assert job.explain(gone) == "it has just ended"


def test_a_long_condition_takes_the_place_of_no_column() -> None:
    bad = status(2)
    bad["members"][1].update(responsive=False, cause=60 * "x")
    rows = view.page(bad).rows
    assert view.fitting(rows, 100) == rows


def test_a_value_of_a_later_version_is_shown_as_it_is() -> None:
    assert view.line(status(2, state=9)) == "run-1: 9, 2 ranks"


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0.0 s"), (9999, "10.0 s"), (59999, "59 s"), (60000, "1 min 0 s"), (7440000, "2 h 4 min")]
)
def test_durations(ms: int, text: str) -> None:
    assert view.duration_text(ms) == text
