"""``farandole.run`` in a Jupyter kernel: functions of cells, twice in one kernel, interrupted."""

from __future__ import annotations

import os
import signal
import textwrap
from collections.abc import Iterator
from pathlib import Path

import processes
import pytest
from jupyter_client.manager import KernelManager

TIMEOUT_S = processes.TIMEOUT_S


class Notebook:
    """A kernel, and what its cells print."""

    def __init__(self, manager: KernelManager) -> None:
        self.manager = manager
        self.client = manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=TIMEOUT_S)
        self.printed = ""
        self.request = ""

    def begin(self, cell: str) -> None:
        self.printed = ""
        # With stop_on_error a kernel drops the next cell if it comes quickly after an error.
        self.request = self.client.execute(textwrap.dedent(cell), store_history=False, stop_on_error=False)

    def read_until(self, text: str, times: int) -> None:
        """Bounded by the time without any output."""
        while self.printed.count(text) < times:
            message = self.client.get_iopub_msg(timeout=TIMEOUT_S)
            if message["msg_type"] == "stream":
                self.printed += message["content"]["text"]
            assert message["msg_type"] != "error", message["content"]

    def end(self) -> dict:
        """How the cell has ended."""
        while True:
            message = self.client.get_shell_msg(timeout=TIMEOUT_S)
            if message["parent_header"]["msg_id"] == self.request:
                return message["content"]

    def run(self, cell: str) -> None:
        self.begin(cell)
        reply = self.end()
        assert reply["status"] == "ok", "\n".join(reply.get("traceback", [str(reply)]))


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR", "TMPDIR"):
        folder = tmp_path / name.lower()
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    mark = f"FARANDOLE_TEST_MARK={os.urandom(8).hex()}"
    name, value = mark.split("=")
    environment = processes.environment(**{name: value})
    # With it a kernel does not show what other processes print.
    environment.pop("PYTEST_CURRENT_TEST", None)
    manager = KernelManager(
        transport="ipc", ip=str(tmp_path / "kernel"), connection_file=str(tmp_path / "connection.json")
    )
    manager.start_kernel(env=environment, cwd=str(tmp_path))
    try:
        yield Notebook(manager)
    finally:
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
        left = processes.wait_until_gone(mark, 20)
        for pid in processes.marked(mark):
            os.kill(pid, signal.SIGKILL)
    assert not left and not list((tmp_path / "tmpdir").iterdir())


def test_notebook(notebook: Notebook) -> None:
    notebook.run(
        """
        import farandole

        scale = 10

        class Loss(Exception):
            pass

        def train(step):
            import torch, farandole.torch as hvd
            hvd.init()
            print("training", flush=True)
            return hvd.rank(), hvd.allreduce(torch.tensor([float(step)]), op=hvd.Sum).item() * scale

        assert farandole.run(train, (1,), num_proc=2) == [(0, 20.0), (1, 20.0)]
        """
    )
    # The kernel shows what processes print, below the cell.
    notebook.read_until("training", 2)
    notebook.run(
        """
        scale = 100
        assert farandole.run(train, (2,), num_proc=2) == [(0, 400.0), (1, 400.0)]
        """
    )
    notebook.run(
        """
        def fails():
            raise Loss("nan")

        try:
            farandole.run(fails, num_proc=2)
        except RuntimeError as error:
            assert "Loss: nan" in str(error) and "in fails" in error.traceback, error
        """
    )


def test_interrupted_notebook(notebook: Notebook) -> None:
    notebook.begin(
        """
        import farandole

        def waits():
            import time
            print("waiting", flush=True)
            time.sleep(600)

        farandole.run(waits, num_proc=2)
        """
    )
    notebook.read_until("waiting", 2)
    notebook.manager.interrupt_kernel()
    reply = notebook.end()
    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
    notebook.run("assert farandole.run(abs, (-1,), num_proc=2) == [1, 1]")
