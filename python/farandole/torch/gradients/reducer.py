"""Starts the reduction of each gradient as soon as it is ready, so that communication overlaps with backward."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from functools import partial
from typing import Any, Callable

import torch

from farandole import process_sets
from farandole.base.variables import is_elastic
from farandole.core import handles, names, objects, reduce_ops
from farandole.library import submission
from farandole.process import basics
from farandole.torch.gradients import device_memory, grouping, repetition, shared_memory
from farandole.torch.gradients.dense import Dense, Group, Unsent
from farandole.torch.gradients.slot import GradientChanged, Reduction, Slot, Transfer
from farandole.torch.gradients.sparse import Sparse

# They outlive the job: after another init() they go on in the new one.
_reducers: weakref.WeakSet[GradientReducer] = weakref.WeakSet()


def give_up_all() -> None:
    """Waits for no allreduce of any optimizer any more: their results are worth nothing. Each begins a new step."""
    for reducer in _reducers:
        reducer.give_up()


def _forget_job() -> None:
    for reducer in _reducers:
        reducer.forget_job()
    handles.release_abandoned()


basics.after_shutdown(_forget_job)


def check_passes(passes: Any) -> None:
    """Raises ValueError if there cannot be so many backward passes in a step."""
    if not isinstance(passes, int) or passes <= 0:
        raise ValueError(f"backward_passes_per_step must be positive, got {passes!r}")


# Reductions of one step that are told apart; more are named as the first ones again.
_ROUNDS_MAX = 64


class _Step:
    """What is known of the gradients since the last reduction."""

    def __init__(self) -> None:
        self.total = -1  # gradients that are to be started; -1: none has been
        self.arrived = itertools.count(1)  # the next one to be started; hooks count, too, under Python's lock
        self.alike = False  # what was done with the gradients of the step before may be done with these
        self.when_all_started: Callable[[], None] | None = None
        self.differentiable = False  # one is part of a graph, which the script may still need
        self.reduced = False  # all have been reduced by a backward pass, and nothing has been made of them yet


class GradientReducer:
    """The gradients of one optimizer.

    Args:
        how: how they are reduced.
        passes: backward passes whose gradients add up before the allreduce starts.
        groups: which gradients are reduced together (`grouping.check`).
        synchronizes_backward: a backward pass after which every parameter has its gradient waits, at its end, until all
            are reduced.
    """

    def __init__(self, how: Reduction, passes: int, groups: Any = None, synchronizes_backward: bool = False) -> None:
        self.slots: list[Slot] = []
        self._frozen: list[tuple[torch.Tensor, str]] = []
        self.groups: list[Group] = []
        self.passes = passes
        self.groups_wanted = groups
        self._how = how
        self._synchronizes_backward = synchronizes_backward
        self._step = _Step()
        self._excluded = False  # this process is not a member of the process set
        # Hooks run on a thread of autograd for each device: what they do once in a job or a step is done by one.
        self._lock = threading.RLock()
        # In which order gradients have come in the first step, by which they get their places on a device; None: they
        # have them.
        self._arrived: dict[Slot, None] | None = None
        handles.release_abandoned()
        _reducers.add(self)

    def add(self, parameter: torch.Tensor, name: str) -> None:
        """Watches a parameter from now on, or as soon as it is trained."""
        if not parameter.requires_grad:
            self._frozen.append((parameter, name))
            return
        slot = Slot(parameter, name, self.passes)
        self._watch(slot)
        self.slots.append(slot)
        self._how.laid_out = False

    def _watch(self, slot: Slot) -> None:
        slot.hook = slot.parameter.register_post_accumulate_grad_hook(self._make_hook(slot))
        slot.hooked = slot.parameter._cdata

    def add_thawed(self) -> None:
        """Watches parameters that were frozen when they came and are trained by now, and those that have lost their
        hook, as torch may exchange what is behind a parameter (`torch.utils.swap_tensors`)."""
        for slot in self.slots:
            if slot.hooked != slot.parameter._cdata:
                # The list of hooks is still there; to set it is what makes torch call them.
                hooks = slot.parameter._post_accumulate_grad_hooks
                slot.parameter._post_accumulate_grad_hooks = hooks
                slot.hooked = slot.parameter._cdata
        frozen = self._frozen
        if any(parameter.requires_grad for parameter, _ in frozen):
            self._frozen = []
            for parameter, name in frozen:
                self.add(parameter, name)

    def remove_hooks(self) -> None:
        """Watches nothing any more. The memory of what is under way stays until it is done."""
        self.drop_all_but(set())
        self.begin_step()
        self.stepped()

    def drop_all_but(self, parameters: set[torch.Tensor]) -> None:
        """Watches these alone from now on; what is under way of others is not waited for."""
        gone = [slot for slot in self.slots if slot.parameter not in parameters]
        for slot in gone:
            slot.hook.remove()
            slot.give_up()
            if slot.group is not None:
                slot.group.dissolve()
            # What is left refers to nothing in a circle: parameters and their gradients go with whoever has them.
            slot.forget_job(0)
            slot.repeats = None
        self.slots = [slot for slot in self.slots if slot.parameter in parameters]
        self.groups = [group for group in self.groups if group.members]
        self._frozen = [(parameter, name) for parameter, name in self._frozen if parameter in parameters]
        if self._arrived is not None:
            self._arrived = {slot: None for slot in self._arrived if slot.parameter in parameters}

    def give_up(self) -> None:
        """Begins a new step: waits for nothing that is under way, whose memory stays until it is done."""
        for slot in self.slots:
            slot.give_up()
        for group in self.groups:
            group.begin_step()
        self.begin_step()
        self.stepped()

    def forget_job(self) -> None:
        """After shutdown(): nothing is under way any more, and what was agreed upon with the other ranks is void."""
        for slot in self.slots:
            slot.give_up()
            slot.forget_job(self.passes)
        self.begin_step()
        self.stepped()
        self.groups = []
        self._how.begun = False
        self._how.laid_out = False
        self._arrived = None

    def set_passes(self, passes: int) -> None:
        """Changes the number of backward passes, from the next step on if something is under way, otherwise at once."""
        self.passes = passes
        if not self.outstanding():
            reduced = self._step.reduced
            self.begin_step()
            self._step.reduced = reduced

    def begin_step(self) -> None:
        """No gradient of the step that begins has come yet."""
        for slot in self.slots:
            slot.delay = self.passes
        self._how.versions.clear()
        self._step = _Step()

    def stepped(self) -> None:
        """What was reduced has been used."""
        self._step.reduced = False
        self._how.round = 1

    def reduce_again(self) -> None:
        """The gradients that there are count as not reduced."""
        self._step.reduced = False

    def still_reduced(self) -> bool:
        """Whether all gradients are the reduced ones of a backward pass. Not if the script has put others into their
        place since: those are reduced like any.

        Raises:
            RuntimeError: it has, and the operation is Sum, so that nobody knows whether they were made from sums.
        """
        if not self._step.reduced or self._excluded:
            return self._step.reduced
        other = next((s for s in self.slots if s.parameter.grad is not None and not s.holds_result()), None)
        if other is not None and not self._averages():
            raise RuntimeError(
                f"the gradient of `{other.name}` was replaced after backward() had reduced it, and with op=hvd.Sum it "
                "cannot be told whether it is still that of one rank. Change gradients in place, or call "
                "optimizer.synchronize() after backward() and step() inside optimizer.skip_synchronize()."
            )
        return other is None

    def started(self) -> bool:
        """Whether gradients have come that are not reduced yet."""
        return self._step.total >= 0

    def finish_early(self) -> None:
        """As at the end of a backward pass after which all have come."""
        self.finish()
        self._step.reduced = True

    def outstanding(self) -> bool:
        """Whether a reduction has been started and not been waited for."""
        return any(slot.transfer is not None for slot in self.slots)

    def finish(self) -> None:
        """Starts the reduction of every gradient that has not been (a missing one counts as zeros) and waits for all.
        If some fail, the first error is raised once none is under way any more."""
        self.add_thawed()
        for slot in self.slots:
            if slot.transfer is None and (slot.parameter.requires_grad or slot.parameter.grad is not None):
                self._start(slot)
        for group in self.groups:
            if group.waits():
                group.submit(self._how)
        first_error = None
        begun = [(slot, slot.transfer) for slot in self.slots if slot.transfer is not None]
        # Three rounds at most: in a group, alone, as sparse.
        while begun:
            ahead = handles.InOrder((transfer.handle, transfer.place) for _, transfer in begun if transfer.handle)
            try:
                for slot, transfer in begun:
                    try:
                        self._finish_one(slot, transfer, ahead)
                    except Exception as error:
                        slot.transfer = None
                        first_error = first_error or error
            finally:
                ahead.end()
            begun = [(slot, slot.transfer) for slot, _ in begun if slot.transfer is not None]
        self.begin_step()
        self.groups = [group for group in self.groups if group.members]
        self._how.round = self._how.round % _ROUNDS_MAX + 1
        if self._arrived and first_error is None:
            self._lay_out_on_devices(list(self._arrived))
        if first_error is not None:
            raise first_error

    def _lay_out_on_devices(self, slots: list[Slot]) -> None:
        """Ranks run the same script, so that this is the order in which the controller has seen the gradients and puts
        them into batches."""
        self._arrived = None
        alone = [slot for slot in slots if slot.group is None and not slot.sparse]
        for slot, place in zip(alone, device_memory.lay_out([slot.parameter for slot in alone])):
            if place is not None:
                slot.lie_at(place)

    def _averages(self) -> bool:
        return self._how.scaling[0] == reduce_ops.Average

    def _make_hook(self, slot: Slot) -> Callable[[torch.Tensor], None]:
        start = self._start

        def on_gradient(parameter: torch.Tensor) -> None:
            if self._step.reduced:
                self._begin_again()
            if slot.delay <= 0:
                raise AssertionError(
                    "Gradients were computed more than backward_passes_per_step times before call to step(). "
                    "Increase backward_passes_per_step to accumulate gradients locally."
                )
            slot.delay -= 1
            if slot.delay == 0:
                try:
                    start(slot)
                except Exception:
                    slot.delay = 1  # as if it had not come
                    raise
                self._count()

        return repetition.make_hook(on_gradient, self, slot)

    def _count(self) -> None:
        """Counts the gradients that are started in a step; the last one makes the backward pass wait at its end."""
        step = self._step
        if step.total < 0:
            with self._lock:
                if step.total < 0:
                    step.total = sum(slot.parameter.requires_grad for slot in self.slots)
                    if self._synchronizes_backward:
                        # Without a frame of Python in between, which compiled autograd would have its say on.
                        queue = torch.autograd.Variable._execution_engine.queue_callback
                        step.when_all_started = partial(queue, partial(self._end_backward, step.arrived))
                    step.alike = self._how.laid_out and self._how.round == 1 and self._arrived is None
        with self._lock:
            last = next(step.arrived) == step.total
        if last and step.when_all_started is not None:
            step.when_all_started()

    def _end_backward(self, arrived: itertools.count[int]) -> None:
        step = self._step
        if step.arrived is not arrived or step.differentiable:
            return  # a hook of the script's has made this step already; or step() has to
        self.finish_early()

    def _begin_again(self) -> None:
        """A gradient has come after all were reduced. An average of one part that all ranks have alike and one that
        they have not is what it should be; a sum is not."""
        if not self._averages() and any(s.holds_result() for s in self.slots if s.parameter.requires_grad):
            raise AssertionError(
                "Gradients were computed more than backward_passes_per_step times before call to step(), and op=hvd.Sum"
                " cannot add to sums. Increase backward_passes_per_step to accumulate gradients locally, or call "
                "optimizer.zero_grad() (the model's is not enough) where a step is left out."
            )
        self._step.reduced = False

    def _start(self, slot: Slot) -> None:
        how = self._how
        if not how.laid_out:
            with self._lock:
                if not how.laid_out:
                    self._prepare()
        if self._excluded:
            return
        if self._step.total < 0:
            handles.release_abandoned()  # what a device has done since, which keeps memory
        if self._arrived is not None:
            self._arrived[slot] = None
        gradient, usual = slot.parameter.grad, slot.usual
        slot.invented = gradient is None
        if gradient is not None and gradient.requires_grad:
            self._step.differentiable = True
        sparse = slot.sparse or (gradient is not None and gradient.layout is torch.sparse_coo)
        if sparse and not how.sparse_as_dense and not isinstance(usual, Unsent):
            Sparse(slot).start(how)
        else:
            assert usual is not None  # since `_prepare`
            usual.start(how)

    def _finish_one(self, slot: Slot, transfer: Transfer, ahead: handles.InOrder) -> None:
        try:
            slot.transfer = transfer.finish(self._how, ahead)
        except GradientChanged:
            raise RuntimeError(self._explain_change(slot)) from None
        if slot.transfer is None and slot.parameter.grad is not None:
            slot.result = weakref.ref(slot.parameter.grad)

    def _explain_change(self, slot: Slot) -> str:
        without = [f"`{each.name}`" for each in self.slots if each.invented]
        if without and self._synchronizes_backward:
            why = (
                f"{', '.join(without[:3])}{' and others' if len(without) > 3 else ''} had no gradient, so that "
                "backward() did not wait for those of the others"
            )
        elif self._step.differentiable:
            why = "it was made with create_graph=True, and such gradients are reduced in step()"
        else:
            why = "it is reduced from backward() to step()"
        return (
            f"the gradient of `{slot.name}` was changed while it was being reduced: {why}. Call "
            "optimizer.synchronize() before gradients are changed, and step() inside optimizer.skip_synchronize()."
        )

    def _prepare(self) -> None:
        """What has to be done before the first gradient in a job, and whenever parameters have come: gives each
        gradient a name, a group, and a place once all parameters are known."""
        how = self._how
        members = how.process_set
        first = not how.begun
        if first:
            basics.size()  # raises when not initialised
            # In an elastic job hooks are there whoever will be a member.
            self._excluded = not members.included()
        if not self._excluded and any(slot.usual is None for slot in self.slots):
            self._refuse_sharing()
        how.arguments = (process_sets.id_of(members), *how.scaling)
        alone = members.size() == 1 and not is_elastic()
        for slot in self.slots:
            if slot.usual is None:
                slot.usual = Unsent(slot) if alone else Dense(slot)
        if self._excluded or alone:
            how.begun = how.laid_out = True
            return
        for slot in self.slots:
            if not slot.own_name:
                slot.own_name = names.claim(members, slot.name)
                slot.wire_name = submission.Text(f"allreduce.{slot.own_name}".encode())
        if first and self.groups_wanted is not None:
            self._form_groups()
        how.begun = True
        if how.compression is not None:
            how.laid_out = True
        elif not self.outstanding():
            how.laid_out = True
            self._arrived = {}
            places = shared_memory.lay_out([slot.parameter for slot in self.slots], how.arguments[0])
            for slot, host_place in zip(self.slots, places):
                slot.lie_at(host_place)

    def _refuse_sharing(self) -> None:
        """Raises RuntimeError if another optimizer reduces one of the gradients as well."""
        for attempt in range(2):
            reducers = [each for each in _reducers if each is not self and each._how.process_set.included()]
            others = {slot.parameter for reducer in reducers for slot in reducer.slots}
            shared = next((slot for slot in self.slots if slot.parameter in others), None)
            if shared is None:
                return
            if attempt:
                raise RuntimeError(
                    f"the gradient of `{shared.name}` would be reduced by two DistributedOptimizers: give each "
                    "parameter to one of them, and delete an optimizer that is not used any more (del) before its "
                    "parameters get another"
                )
            gc.collect()  # the other may be garbage that nobody has found yet

    def _form_groups(self) -> None:
        """Of the parameters that are trained now; what is in no group, or comes later, is reduced alone."""
        if isinstance(self.groups_wanted, int):
            trained = {slot.name: slot for slot in self.slots if slot.parameter.requires_grad}
            members = self._how.process_set
            root = (members.ranks or [0])[0]
            order = objects.broadcast_object(list(trained), root, "optimizer.groups", members)
            if set(order) != set(trained):
                differing = sorted(set(order) ^ set(trained))
                raise ValueError(f"rank {root} and this rank train different parameters, among them {differing[0]!r}")
            lists = [[trained[name] for name in part] for part in grouping.split(order, self.groups_wanted)]
        else:
            slots = {slot.parameter: slot for slot in self.slots}
            lists = [[slots[each] for each in group if each in slots] for group in self.groups_wanted]
        self.groups = [Group(members) for members in lists if len(members) > 1]
