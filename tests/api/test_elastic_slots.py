from __future__ import annotations

import random
from typing import Any

import pytest

from farandole.launch.job.slots import Bounds, Slot, Slots
from farandole.launch.job.verdict import Verdict

KILLED = 128 + 9


class Play:
    """A job whose processes end as told; the time passes when it is said."""

    def __init__(self, hosts: dict[str, int], wanted: int, least: int, most: int = 100, **more: Any) -> None:
        self.slots = Slots(Bounds(wanted, least, most, **more), random.Random(1))
        self.now = 0.0
        self.hosts(**hosts)

    def hosts(self, **hosts: int) -> None:
        self.slots.discovered(hosts)

    def next(self) -> list[str]:
        """What is to be done, as "start a:0"."""
        return [f"{ask.verb} {ask.slot}" for ask in self.slots.next(self.now)]

    def end(self, slot: str, code: int) -> None:
        host, index = slot.split(":")
        self.slots.ended(Slot(host, int(index)), code, code == KILLED, self.now)

    def verdict(self) -> Verdict | None:
        return self.slots.verdict(self.now)

    def running(self) -> list[str]:
        return [str(slot) for slot in self.slots.running]


def test_starts_what_is_wanted_then_up_to_the_most() -> None:
    play = Play({"a": 2, "b": 3}, wanted=3, least=2, most=4)
    assert play.next() == ["start a:0", "start a:1", "start b:0"]
    assert play.next() == ["start b:1"]
    assert play.next() == [] and play.verdict() is None


def test_waits_for_the_least() -> None:
    play = Play({"a": 1}, wanted=3, least=2, fixed=False)
    assert play.next() == [] and play.verdict() is None
    play.hosts(a=1, b=1)
    assert play.next() == ["start a:0", "start b:0"]


def test_hosts_never_come() -> None:
    play = Play({}, wanted=2, least=2, timeout_s=10, fixed=False)
    assert play.next() == [] and play.verdict() is None
    play.now = 10
    verdict = play.verdict()
    assert verdict.code == 1 and "fewer than 2 processes for 10 s" in verdict.sentence
    assert "no host was discovered" in verdict.sentence


def test_a_failed_slot_is_avoided_its_host_is_not() -> None:
    play = Play({"a": 3, "b": 2}, wanted=3, least=2, most=3)
    play.next()
    play.end("a:1", KILLED)
    assert play.next() == ["start b:0"]
    play.end("a:0", KILLED)
    assert play.next() == ["start b:1"]
    play.end("a:2", KILLED)
    play.now = 1e6
    assert play.next() == [] and play.running() == ["b:0", "b:1"] and play.verdict() is None


def test_fixed_hosts_with_too_few_slots_left_end_the_job_at_once() -> None:
    play = Play({"a": 3}, wanted=3, least=2)
    play.next()
    play.end("a:0", KILLED)
    assert play.verdict() is None
    play.end("a:1", 5)
    verdict = play.verdict()
    assert verdict == Verdict(KILLED, "only 1 of the 2 slots that --min-np needs can still be used")


def test_cooldown_doubles_up_to_its_end() -> None:
    play = Play({"a": 1, "b": 2}, wanted=3, least=1, cooldown_s=(4.0, 10.0))
    play.next()
    for longest in (4.0, 8.0, 10.0, 10.0):
        play.end("a:0", KILLED)
        assert play.next() == []
        play.now += 0.75 * longest - 0.01
        assert play.next() == []
        play.now += 0.25 * longest + 0.02
        assert play.next() == ["start a:0"]


def test_cooled_slots_count_as_left() -> None:
    play = Play({"a": 2}, wanted=2, least=2, cooldown_s=(4.0, 10.0), timeout_s=60)
    play.next()
    play.end("a:1", KILLED)
    assert play.verdict() is None
    play.now = 60
    assert play.next() == ["start a:1"] and play.verdict() is None


def test_a_new_host_is_used_and_one_that_disappears_is_retired() -> None:
    play = Play({"a": 1}, wanted=1, least=1, fixed=False)
    assert play.next() == ["start a:0"]
    play.hosts(a=1, b=2)
    assert play.next() == ["start b:0", "start b:1"]
    play.hosts(b=1, a=1)
    assert play.next() == ["retire b:1"] and play.next() == []
    play.end("b:1", 0)  # what leaves in good order is not done
    assert play.verdict() is None
    play.hosts(a=1, b=2)
    assert play.next() == ["start b:1"]


def test_a_retired_process_that_is_killed_is_no_failure() -> None:
    play = Play({"a": 1, "b": 1}, wanted=2, least=1, fixed=False)
    play.next()
    play.hosts(a=1)
    play.next()
    play.end("b:0", KILLED)
    play.hosts(a=1, b=1)
    assert play.next() == ["start b:0"]


def test_a_slot_that_comes_back_before_its_process_has_left() -> None:
    play = Play({"a": 1, "b": 1}, wanted=2, least=1, fixed=False)
    play.next()
    play.hosts(a=1)
    assert play.next() == ["retire b:0"]
    play.hosts(a=1, b=1)
    assert play.next() == []
    play.end("b:0", 0)
    assert play.next() == ["start b:0"]


def test_processes_stay_while_there_is_no_other_slot() -> None:
    play = Play({"a": 2}, wanted=2, least=2, most=2, fixed=False)
    play.next()
    play.hosts()
    assert play.next() == [] and play.slots.nowhere
    play.now = 3600.0
    assert play.verdict() is None
    play.hosts(a=2)
    assert play.next() == [] and not play.slots.nowhere
    # One that failed is not used again.
    play.hosts(b=1)
    assert play.next() == ["retire a:0", "retire a:1", "start b:0"]
    play.end("b:0", KILLED)
    play.hosts(a=1, b=1)
    assert play.next() == []
    play.hosts(b=1, c=2)
    assert play.next() == ["start c:0", "start c:1"]
    play.hosts(b=1)
    assert play.next() == [] and play.slots.nowhere


def test_done_when_all_have_ended_well() -> None:
    play = Play({"a": 3}, wanted=2, least=1, most=2)
    play.next()
    play.end("a:0", 0)
    # Perhaps it waits for the one that is done.
    assert play.next() == ["dismiss a:1"] and play.next() == [] and play.verdict() is None
    play.end("a:1", 0)
    assert play.verdict() == Verdict(0)


def test_a_failure_after_a_good_end_decides_the_exit_code() -> None:
    play = Play({"a": 2}, wanted=2, least=1)
    play.next()
    play.end("a:0", 0)
    play.end("a:1", 7)
    assert play.verdict() == Verdict(7)


def test_a_failure_after_a_good_end_names_that() -> None:
    play = Play({"a": 2}, wanted=2, least=2)
    play.next()
    play.end("a:1", 0)
    play.end("a:0", 3)
    assert play.slots.describe(Slot("a", 0), play.now) == ", after the one in slot a:1 had ended well"


def test_a_failure_long_before_the_good_end_does_not() -> None:
    play = Play({"a": 2}, wanted=2, least=1)
    play.next()
    play.end("a:0", KILLED)
    play.next()
    play.end("a:1", 0)
    assert play.verdict() == Verdict(0)


def test_a_mistake_of_the_script_is_not_tried_in_all_slots() -> None:
    play = Play({"a": 100}, wanted=3, least=2, most=3)
    play.next()
    for slot in ("a:0", "a:1", "a:2"):
        assert play.verdict() is None
        play.end(slot, 1)
        play.next()
        play.now += 1
    verdict = play.verdict()
    assert verdict.code == 1 and "an error of its own" in verdict.sentence


@pytest.mark.parametrize("code", [KILLED, 0])
def test_other_ends_among_the_errors_speak_for_the_script(code: int) -> None:
    play = Play({"a": 100}, wanted=3, least=1, most=3)
    play.next()
    for slot, how in (("a:0", 1), ("a:1", code), ("a:2", 1)):
        play.end(slot, how)
        play.next()
    verdict = play.verdict()
    assert verdict is None or "of its own" not in verdict.sentence


def test_errors_that_are_far_apart_speak_for_the_script() -> None:
    play = Play({"a": 100}, wanted=2, least=1, most=2)
    play.next()
    play.end("a:0", 1)
    assert play.next() == ["start a:2"]
    play.now += 3600
    play.end("a:1", 1)
    assert play.verdict() is None and play.next() == ["start a:3"]


def test_nobody_is_left() -> None:
    play = Play({"a": 4}, wanted=2, least=1, most=2)
    play.next()
    play.end("a:0", KILLED)
    play.end("a:1", KILLED)
    verdict = play.verdict()
    assert verdict.code == KILLED and "no process is left" in verdict.sentence and play.next() == []


def test_reset_limit() -> None:
    play = Play({"a": 10}, wanted=3, least=1, most=3, reset_limit=2)
    play.next()
    play.end("a:0", KILLED)
    play.end("a:1", KILLED)  # together: one change
    assert play.next() == ["start a:3", "start a:4"] and play.next() == []
    play.end("a:3", KILLED)
    play.next()
    assert play.verdict() is None
    play.end("a:4", KILLED)
    play.next()
    verdict = play.verdict()
    assert verdict.code == KILLED and "reset limit" in verdict.sentence and "2 times" in verdict.sentence


def test_too_few_for_too_long() -> None:
    play = Play({"a": 3}, wanted=3, least=3, timeout_s=30, fixed=False)
    play.next()
    play.end("a:2", KILLED)
    assert play.verdict() is None
    play.now = 29
    assert play.verdict() is None
    play.now = 31
    verdict = play.verdict()
    assert verdict.code == KILLED and "discovered are a:3; avoided after failures are a:2" in verdict.sentence


def test_any_history_keeps_the_bounds() -> None:
    for seed in range(300):
        chance = random.Random(seed)
        least = chance.randrange(1, 4)
        most = least + chance.randrange(0, 4)
        play = Play({}, chance.randrange(least, most + 1), least, most, cooldown_s=(1.0, 8.0), fixed=False)
        present: dict[str, int] = {}
        leaving: set[str] = set()
        for _ in range(60):
            play.now += chance.random()
            if chance.random() < 0.3:
                present = {name: chance.randrange(1, 4) for name in "abc" if chance.random() < 0.7}
                play.hosts(**present)
            for ask in play.next():
                host, index = ask.split()[1].split(":")
                if ask.startswith("start"):
                    assert int(index) < present[host], seed
                else:
                    assert int(index) >= present.get(host, 0), seed
                    leaving.add(f"{host}:{index}")
            if play.verdict() is not None:
                break
            running = play.running()
            assert len(set(running) - leaving) <= most, seed
            if running and chance.random() < 0.3:
                slot = chance.choice(running)
                leaving.discard(slot)
                play.end(slot, chance.choice([KILLED, KILLED, 1]))
