from __future__ import annotations

import copy
from types import ModuleType
from typing import Any

import pytest

from farandole import elastic, exceptions
from farandole.core import handles
from farandole.elastic import membership
from farandole.library import gpus


def make_state(**values: Any) -> elastic.ObjectState:
    return elastic.ObjectState(bcast_object=lambda value: value, get_rank=lambda: 0, **values)


def raising(*errors: Exception) -> Any:
    """A function that raises one after the other, and then returns True."""
    left = list(errors)

    def call(*_: Any) -> bool:
        if left:
            raise left.pop(0)
        return True

    return call


class Loop:
    """Runs `run_fn` over what each turn is to do, and notes what happens to the state."""

    def __init__(self, *turns: Any) -> None:
        self.turns = list(turns)
        self.events: list[str] = []
        self.resets: list[Any] = []  # errors of the calls of reset to come
        self.state = make_state(step=0)
        for name in ("save", "restore", "sync", "on_reset"):
            self._note(name)

    def _note(self, name: str) -> None:
        method = getattr(self.state, name)

        def noting() -> None:
            self.events.append(name)
            method()

        setattr(self.state, name, noting)

    def _turn(self, state: elastic.State) -> Any:
        self.events.append("turn")
        turn = self.turns.pop(0)
        if callable(turn):
            turn = turn(state)
        if isinstance(turn, BaseException):
            raise turn
        return turn

    def _reset(self) -> None:
        self.events.append("reset")
        if self.resets:
            raise self.resets.pop(0)

    def run(self) -> Any:
        return elastic.run_fn(self._turn, self._reset)(self.state)


def test_returns_what_the_function_returns() -> None:
    loop = Loop("result")
    assert loop.run() == "result" and loop.events == ["sync", "turn"]


def test_a_lost_peer_takes_everybody_back_to_the_commit() -> None:
    loop = Loop(exceptions.HorovodInternalError("gone"), "result")
    assert loop.run() == "result"
    assert loop.events == ["sync", "turn", "restore", "reset", "on_reset", "sync", "turn"]


def test_added_workers_keep_the_state_and_share_it() -> None:
    loop = Loop(exceptions.HostsUpdatedInterrupt(skip_sync=False), "result")
    loop.run()
    assert loop.events == ["sync", "turn", "reset", "on_reset", "sync", "turn"]


def test_removed_workers_need_no_sync() -> None:
    loop = Loop(exceptions.HostsUpdatedInterrupt(skip_sync=True), "result")
    loop.run()
    assert loop.events == ["sync", "turn", "reset", "on_reset", "turn"]


def test_one_worker_that_needs_a_sync_makes_all_of_them_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "largest", lambda name, values: [1] * len(values))
    loop = Loop(exceptions.HostsUpdatedInterrupt(skip_sync=True), "result")
    loop.run()
    assert loop.events == ["sync", "turn", "reset", "on_reset", "sync", "turn"]


def test_who_was_handed_the_state_says_so_before_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop(exceptions.HostsUpdatedInterrupt(skip_sync=True), "result")
    monkeypatch.setattr(membership, "confirm_state", lambda: loop.events.append("confirm"))
    loop.run()
    assert loop.events == ["sync", "confirm", "turn", "reset", "on_reset", "confirm", "turn"]


@pytest.mark.parametrize(
    "error",
    [
        exceptions.TensorMismatchError("[3] on rank 1"),
        exceptions.UnsupportedOperationError("a reducescatter by min"),
        exceptions.NotInitializedError("use hvd.init()"),
        exceptions.InitializationError("too few"),
        ValueError("own mistake"),
        KeyboardInterrupt(),
    ],
)
def test_what_another_attempt_cannot_help_is_raised(error: BaseException) -> None:
    loop = Loop(error, "again")
    with pytest.raises(type(error)):
        loop.run()
    assert loop.events == ["sync", "turn"]


def test_an_error_of_the_script_that_comes_of_a_lost_peer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a device the script learns of it late, and may have looked at what is not there."""
    monkeypatch.setenv("FARANDOLE_ELASTIC", "1")
    monkeypatch.setattr(handles, "settle", raising(exceptions.PeerLostError("rank 2 was lost")))
    loop = Loop(AssertionError("no sum"), "result")
    assert loop.run() == "result" and loop.events == ["sync", "turn", "restore", "reset", "on_reset", "sync", "turn"]
    said = capsys.readouterr().err
    assert "going back to the last commit: rank 2 was lost; the script has raised AssertionError: no sum" in said


def test_a_result_of_steps_that_a_lost_peer_left_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARANDOLE_ELASTIC", "1")
    monkeypatch.setattr(handles, "settle", raising(exceptions.PeerLostError("rank 2 was lost")))
    loop = Loop("of garbage", "result")
    assert loop.run() == "result" and loop.events == ["sync", "turn", "restore", "reset", "on_reset", "sync", "turn"]


@pytest.mark.parametrize("errors", [[], [exceptions.TensorMismatchError("other")]])
def test_an_error_of_the_script_is_its_own(monkeypatch: pytest.MonkeyPatch, errors: list[Exception]) -> None:
    monkeypatch.setenv("FARANDOLE_ELASTIC", "1")
    monkeypatch.setattr(handles, "settle", raising(*errors))
    loop = Loop(AssertionError("no sum"))
    with pytest.raises(AssertionError, match="no sum"):
        loop.run()
    assert loop.events == ["sync", "turn"]


def test_a_commit_saves_nothing_that_a_lost_peer_left_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    state = make_state(step=0)
    state.step = 1
    monkeypatch.setattr(handles, "settle", raising(exceptions.PeerLostError("rank 2 was lost")))
    with pytest.raises(exceptions.PeerLostError):
        state.commit()
    state.restore()
    assert state.step == 0


def test_a_process_whose_gpu_has_failed_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is restored there, and by default the launcher does not use its slot again."""
    monkeypatch.setattr(gpus, "failure", lambda: "GPU 0 (H100) has failed")
    loop = Loop(exceptions.PeerLostError("gone"), "again")
    monkeypatch.setenv("FARANDOLE_ELASTIC", "1")
    with pytest.raises(exceptions.DeviceLostError, match="GPU 0"):
        loop.run()
    assert loop.events == ["sync", "turn"]


def test_a_peer_lost_while_coming_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARANDOLE_ELASTIC", "1")
    loop = Loop(exceptions.PeerLostError("first"), "result")
    loop.resets = [exceptions.PeerLostError("second")]
    assert loop.run() == "result"
    assert loop.events.count("reset") == 2


def test_a_peer_lost_in_a_reset_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FARANDOLE_ELASTIC", "1")
    errors = [exceptions.PeerLostError("in the callback")]
    loop = Loop(exceptions.PeerLostError("first"), "result")
    loop.state.register_reset_callbacks([lambda: None if not errors else (_ for _ in ()).throw(errors.pop())])
    assert loop.run() == "result"
    assert loop.events == ["sync", "turn"] + ["restore", "reset", "on_reset"] * 2 + ["sync", "turn"]


def test_outside_of_elastic_jobs_nobody_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FARANDOLE_ELASTIC", raising=False)
    monkeypatch.delenv("HOROVOD_ELASTIC", raising=False)
    with pytest.raises(exceptions.PeerLostError):
        Loop(exceptions.PeerLostError("gone"), "again").run()


def test_a_retired_worker_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    loop = Loop(exceptions.HostsUpdatedInterrupt(skip_sync=True))
    loop.resets = [exceptions.WorkerRetiredError("slot a:1 was taken away")]
    with pytest.raises(SystemExit) as ended:
        loop.run()
    assert ended.value.code == 0
    assert capsys.readouterr().err == "farandole: this worker leaves the job: slot a:1 was taken away\n"


def test_init_that_fails_for_good_ends_the_loop() -> None:
    loop = Loop(exceptions.HorovodInternalError("gone"), "again")
    loop.resets = [exceptions.InitializationError("1 of 2 workers")]
    with pytest.raises(exceptions.InitializationError):
        loop.run()


def test_restored_values_are_deep_copies() -> None:
    state = make_state(losses=[[1.0]], step=3)
    state.losses[0].append(2.0)
    state.step = 4
    state.restore()
    assert state.losses == [[1.0]] and state.step == 3
    # What was restored can be changed and restored again.
    state.losses[0].append(5.0)
    state.restore()
    assert state.losses == [[1.0]]
    state.losses[0].append(7.0)
    state.commit()
    state.losses[0].clear()
    state.restore()
    assert state.losses == [[1.0, 7.0]]


def test_sync_takes_present_values_of_rank_0_and_saves_them() -> None:
    sent: list[Any] = []

    def broadcast(value: Any) -> Any:
        sent.append(copy.deepcopy(value))
        return {"step": 9, "names": ["a"]}

    state = elastic.ObjectState(bcast_object=broadcast, get_rank=lambda: 1, step=1, names=[])
    state.step = 2
    state.sync()
    assert sent == [{"step": 2, "names": []}]
    state.step, state.names = 100, None
    state.restore()
    assert (state.step, state.names) == (9, ["a"])


def test_a_value_that_cannot_be_copied_is_named() -> None:
    with pytest.raises(TypeError, match="'reader'.*generator"):
        make_state(step=0, reader=(line for line in ()))


def test_messages_interrupt_at_the_next_commit() -> None:
    state = make_state(step=0)
    state.commit()
    state.on_hosts_updated(1.0, elastic.HostUpdateResult.removed)
    with pytest.raises(elastic.HostsUpdatedInterrupt) as interrupt:
        state.commit()
    assert interrupt.value.skip_sync
    state.commit()
    for result in (elastic.HostUpdateResult.removed, elastic.HostUpdateResult.added):
        state.on_hosts_updated(2.0, result)
    with pytest.raises(elastic.HostsUpdatedInterrupt) as interrupt:
        state.check_host_updates()
    assert not interrupt.value.skip_sync


def test_reset_forgets_messages_and_calls_back_in_order() -> None:
    state = make_state(step=0)
    calls: list[str] = []
    state.reset = lambda: calls.append("reset")
    state.register_reset_callbacks([lambda: calls.append("first")])
    state.register_reset_callbacks([lambda: calls.append("second"), lambda: calls.append("third")])
    state.on_hosts_updated(1.0, 2)
    state.on_reset()
    assert calls == ["reset", "first", "second", "third"]
    state.check_host_updates()


def test_changes_that_others_know_of_interrupt_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "largest", lambda name, values: [2, 0])
    with pytest.raises(elastic.HostsUpdatedInterrupt) as interrupt:
        make_state().check_host_updates()
    assert not interrupt.value.skip_sync


def test_alone_nothing_ever_changes(hvd: ModuleType) -> None:
    state = make_state(step=1)
    assert membership.changes() == (0, 0)
    assert membership.largest("values", (3, 0, 1 << 40)) == [3, 0, 1 << 40]
    for _ in range(5):
        state.commit()
