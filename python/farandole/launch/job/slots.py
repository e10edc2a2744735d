"""Which processes an elastic job should have: decisions only, with the time as an argument."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from farandole.launch.job.verdict import Verdict

# When all processes end with errors of their own within this time, the script is at fault.
SAME_FAULT_S = 60.0
_NEVER = float("inf")


class Slot(NamedTuple):
    """A place for one process: a number on a host, from 0."""

    host: str
    number: int

    def __str__(self) -> str:
        return f"{self.host}:{self.number}"


class Ask(NamedTuple):
    """What is to be done with a slot: "start" a process there, "retire" the one that is there, or "dismiss" it: others
    are done, and it is not to wait for them in vain, but may finish what it does."""

    verb: str
    slot: Slot


class _Phase(Enum):
    FREE = "free"
    RUNNING = "running"
    RETIRING = "retiring"


@dataclass
class _SlotState:
    phase: _Phase = _Phase.FREE
    failures: int = 0
    avoided_until: float = 0.0  # no process is started there before
    dismissed: bool = False


@dataclass(frozen=True)
class Bounds:
    """What was asked for.

    Attributes:
        wanted: processes at the start.
        least: fewer cannot train.
        most: more are never started.
        timeout_s: how long there may be fewer than `least`.
        reset_limit: so often the processes may change; None: any number of times.
        cooldown_s: a slot whose process failed is avoided for the first of these, then for twice as long after each
            further failure up to the second; None: for ever.
        fixed: the hosts never change.
    """

    wanted: int
    least: int
    most: int
    timeout_s: float = 600.0
    reset_limit: int | None = None
    cooldown_s: tuple[float, float] | None = None
    fixed: bool = True


class Slots:
    """The slots of a job and what happens in them.

    The caller tells it what is discovered and how processes end, and asks `next` what to do and `verdict` whether the
    job is over. Processes start in the order in which hosts were discovered, all slots of one before the next.
    """

    def __init__(self, bounds: Bounds, chance: random.Random | None = None) -> None:
        self._bounds = bounds
        # Slots that failed together do not come back together.
        self._chance = chance or random.Random()
        self._hosts: dict[str, int] = {}
        self._states: dict[Slot, _SlotState] = {}
        self._began = False  # processes were started
        # The first whose process has ended well: nothing is started any more.
        self._first_done: Slot | None = None
        self._changed = False  # processes were lost, or hosts have changed, since `next`
        self._nowhere = False
        self._resets = 0
        self._short_since: float | None = None
        self._first_code = 0  # of the first process that failed
        self._code_at_end = 0  # of the first that failed after another had ended well
        # Processes that ran when one ended with an error of its own, at that time, and have not ended since.
        self._suspects: tuple[float, set[Slot]] | None = None
        self._verdict: Verdict | None = None

    @property
    def _done(self) -> bool:
        return self._first_done is not None

    @property
    def running(self) -> list[Slot]:
        """Slots with a process, also one that is to leave."""
        return [slot for slot, state in self._states.items() if state.phase is not _Phase.FREE]

    @property
    def hosts(self) -> list[str]:
        """Hosts that are there, in their order."""
        return list(self._hosts)

    def discovered(self, hosts: Mapping[str, int]) -> None:
        """These hosts are there now, with so many slots each. Known ones keep their place in the order."""
        order = [host for host in self._hosts if host in hosts] + [host for host in hosts if host not in self._hosts]
        new = {host: hosts[host] for host in order}
        self._changed = self._changed or new != self._hosts
        self._hosts = new
        for slot in self._ordered():
            self._states.setdefault(slot, _SlotState())

    def next(self, now: float) -> list[Ask]:
        """What to do now. What it says is taken as done."""
        there = set(self._ordered())
        gone = [s for s, state in self._states.items() if state.phase is _Phase.RUNNING and s not in there]
        # They would take the state with them.
        self._nowhere = bool(gone) and not any(self._holds(slot, now) for slot in there)
        if self._nowhere:
            gone = []
        for slot in gone:
            self._states[slot].phase = _Phase.RETIRING
        dismissed = self._to_dismiss()
        starts = self._to_start(now)
        for slot in starts:
            self._states[slot].phase = _Phase.RUNNING
        if self._began and self._changed:
            self._count_reset()
        self._changed = False
        self._began = self._began or bool(starts)
        verbs = (("retire", gone), ("dismiss", dismissed), ("start", starts))
        return [Ask(verb, slot) for verb, slots in verbs for slot in slots]

    @property
    def nowhere(self) -> bool:
        """Whether processes stay although their slots are gone, because there are no others for now."""
        return self._nowhere

    def ended(self, slot: Slot, code: int, killed: bool, now: float) -> None:
        """The process in `slot` has ended. `killed`: by a signal, 128 plus its number is in `code`."""
        state = self._states[slot]
        retiring = state.phase is _Phase.RETIRING
        state.phase = _Phase.FREE
        if retiring:
            self._acquit(slot)
        elif code == 0:
            self._first_done = self._first_done or slot
        else:
            self._failed(state, code, now)
            if killed:
                self._acquit(slot)
            else:
                self._accuse(slot, now)
        if self._began and not self.running:
            self._nobody_left()

    def verdict(self, now: float) -> Verdict | None:
        """How the job ends, or None while it goes on. Processes that run then are to be ended."""
        least = self._bounds.least
        if self._done or self._staying() >= least:
            self._short_since = None
            return self._verdict
        if self._short_since is None:
            self._short_since = now
        left = self._staying() + sum(self._usable(slot) for slot in self._ordered())
        if self._bounds.fixed and left < least:
            self._end(self._first_code or 1, f"only {left} of the {least} slots that --min-np needs can still be used")
        elif now - self._short_since >= self._bounds.timeout_s:
            self._end(
                self._first_code or 1,
                f"there were fewer than {least} processes for {self._bounds.timeout_s:g} s; {self._describe(now)}",
            )
        return self._verdict

    def describe(self, slot: Slot, now: float) -> str:
        """What becomes of a slot whose process has failed, after a comma; "" if nothing is known against it. After
        another process has ended well, which one that was: the failure may be nothing but that it is missed."""
        if self._first_done is not None:
            return f", after the one in slot {self._first_done} had ended well"
        until = self._states[slot].avoided_until
        if until == _NEVER:
            return ", the slot is not used again"
        return f", the slot is not used for {until - now:.1f} s" if until > now else ""

    def _ordered(self) -> list[Slot]:
        return [Slot(host, index) for host, count in self._hosts.items() for index in range(count)]

    def _staying(self) -> int:
        return sum(state.phase is _Phase.RUNNING for state in self._states.values())

    def _free(self, slot: Slot, now: float) -> bool:
        state = self._states[slot]
        return state.phase is _Phase.FREE and state.avoided_until <= now

    def _holds(self, slot: Slot, now: float) -> bool:
        """Whether a process stays there, or may be started there now."""
        return self._states[slot].phase is _Phase.RUNNING or self._free(slot, now)

    def _usable(self, slot: Slot) -> bool:
        """Whether a process may be started there, now or after a cool-down."""
        state = self._states[slot]
        return state.phase is not _Phase.RUNNING and state.avoided_until < _NEVER

    def _to_dismiss(self) -> list[Slot]:
        if not self._done:
            return []
        found = [s for s, state in self._states.items() if state.phase is _Phase.RUNNING and not state.dismissed]
        for slot in found:
            self._states[slot].dismissed = True
        return found

    def _to_start(self, now: float) -> list[Slot]:
        if self._done or self._verdict is not None:
            return []
        free = [slot for slot in self._ordered() if self._free(slot, now)]
        if not self._began:
            return free[: self._bounds.wanted] if len(free) >= self._bounds.least else []
        return free[: max(0, self._bounds.most - self._staying())]

    def _failed(self, state: _SlotState, code: int, now: float) -> None:
        self._changed = True
        self._first_code = self._first_code or code
        if self._done:
            self._code_at_end = self._code_at_end or code
        cooldown = self._bounds.cooldown_s
        if cooldown is None:
            state.avoided_until = _NEVER
        else:
            longest = min(cooldown[1], cooldown[0] * 2.0 ** min(state.failures, 64))
            state.avoided_until = now + self._chance.uniform(0.75, 1.0) * longest
        state.failures += 1

    def _accuse(self, slot: Slot, now: float) -> None:
        """Whether the script is at fault: then what is started in other slots ends like those before it."""
        if self._suspects is None or now - self._suspects[0] > SAME_FAULT_S:
            self._suspects = (now, {*self.running, slot})
        suspects = self._suspects[1]
        suspects.discard(slot)
        if not suspects and not self._done:
            self._end(self._first_code, "every process has ended with an error of its own: nothing is started again")

    def _acquit(self, slot: Slot) -> None:
        if self._suspects is not None and slot in self._suspects[1]:
            self._suspects = None

    def _nobody_left(self) -> None:
        if self._done:
            self._end(self._code_at_end)
        else:
            self._end(self._first_code or 1, "no process is left that knows the state of the training")

    def _count_reset(self) -> None:
        limit = self._bounds.reset_limit
        self._resets += 1
        if limit is not None and self._resets > limit:
            self._end(self._first_code or 1, f"the processes have changed more than {limit} times, the reset limit")

    def _describe(self, now: float) -> str:
        if not self._hosts:
            return "no host was discovered"
        avoided = [slot for slot, state in self._states.items() if state.avoided_until > now]
        slots = ", ".join(f"{host}:{count}" for host, count in self._hosts.items())
        return f"discovered are {slots}" + (
            f"; avoided after failures are {', '.join(map(str, avoided))}" if avoided else ""
        )

    def _end(self, code: int, sentence: str = "") -> None:
        if self._verdict is None:
            self._verdict = Verdict(code, sentence)
