"""Starts the allreduce of each gradient as soon as it is ready, so that communication overlaps with backward."""

from __future__ import annotations

import weakref
from typing import Any, Callable

import torch

from farandole import process_sets
from farandole.base.variables import is_elastic
from farandole.core import names, reduce_ops
from farandole.exceptions import TensorMismatchError
from farandole.library import abi, errors, submission, waiting
from farandole.library.submission import ALLREDUCE, submit
from farandole.process import basics
from farandole.process_sets import ProcessSet
from farandole.torch import functions, memory
from farandole.torch.compression import Compression, Compressor
from farandole.torch.gradients import grouping, shared_memory
from farandole.torch.gradients.grouping import Group
from farandole.torch.gradients.slot import Slot
from farandole.torch.gradients.sparse import SparseGradient

# (handle, what it works on) of optimizers that were dropped meanwhile.
_abandoned: list[tuple[int, torch.Tensor | None]] = []
# They outlive the job: after another init() they go on in the new one.
_reducers: weakref.WeakSet[GradientReducer] = weakref.WeakSet()


def give_up_all() -> None:
    """Waits for no allreduce of any optimizer any more: their results are worth nothing. Each begins a new step."""
    for reducer in _reducers:
        reducer.give_up()


def _forget_job() -> None:
    _abandoned.clear()
    for reducer in _reducers:
        reducer.forget_job()


basics.after_shutdown(_forget_job)


def _release_abandoned() -> None:
    library = abi.load()
    for entry in list(_abandoned):
        if library.wait(entry[0], 0) != abi.PENDING:
            library.release(entry[0])
            _abandoned.remove(entry)


def check_passes(passes: Any) -> None:
    """Raises ValueError if there cannot be so many backward passes in a step."""
    if not isinstance(passes, int) or passes <= 0:
        raise ValueError(f"backward_passes_per_step must be positive, got {passes!r}")


# Reductions of one step that are told apart; more are named as the first ones again.
_ROUNDS_MAX = 64


class GradientReducer:
    """The gradients of one optimizer.

    Args:
        op: Average or Sum.
        prescale, postscale: factors before and after the reduction.
        compression: what travels.
        passes: backward passes whose gradients add up before the allreduce starts.
        process_set: the ranks whose gradients are reduced.
        groups: which gradients are reduced together (`grouping.check`).
        sparse_as_dense: reduces sparse gradients as dense ones.
        synchronizes_backward: a backward pass after which every parameter has its gradient waits, at its end, until all
            are reduced.
    """

    def __init__(
        self,
        op: int,
        prescale: float,
        postscale: float,
        compression: type[Compressor],
        passes: int,
        process_set: ProcessSet,
        groups: Any = None,
        sparse_as_dense: bool = False,
        synchronizes_backward: bool = False,
    ) -> None:
        self.slots: list[Slot] = []
        self._frozen: list[tuple[torch.Tensor, str]] = []
        self.groups: list[Group] = []
        self.passes = passes
        self._scaling = (op, prescale, postscale)
        self._process_set = process_set
        self.groups_wanted = groups
        self._sparse_as_dense = sparse_as_dense
        self._synchronizes_backward = synchronizes_backward
        # All gradients have been reduced since a backward pass, and nothing has been made of them yet.
        self.reduced = False
        # Reductions since step(), and one. A rank that has made more backward passes than others, or left out a step,
        # waits for names that they do not know, instead of adding its gradients to those of another step.
        self._round = 1
        self._missing = -1  # gradients that are still to be started in this step; -1: none has been
        self._differentiable = False  # one is part of a graph, which the script may still need
        self._compression = None if compression is Compression.none else compression
        self._library = abi.load()
        # Of `submission.submit`, from the process set on; () until something is reduced in this job.
        self._arguments: tuple = ()
        self._laid_out = False
        self._excluded = False  # this process is not a member of the process set
        self._alone = False  # it is the only one, for good
        _release_abandoned()
        _reducers.add(self)

    def add(self, parameter: torch.Tensor, name: str) -> None:
        """Watches a parameter from now on, or as soon as it is trained."""
        if not parameter.requires_grad:
            self._frozen.append((parameter, name))
            return
        slot = Slot(parameter, name, self.passes)
        slot.hook = parameter.register_post_accumulate_grad_hook(self._make_hook(slot))
        self.slots.append(slot)
        self._laid_out = False

    def add_thawed(self) -> None:
        """Watches parameters that were frozen when they came and are trained by now."""
        frozen = self._frozen
        if any(parameter.requires_grad for parameter, _ in frozen):
            self._frozen = []
            for parameter, name in frozen:
                self.add(parameter, name)

    def remove_hooks(self) -> None:
        """Watches nothing any more. The memory of what is under way stays until it is done."""
        for slot in self.slots:
            slot.hook.remove()
        self.give_up()

    def give_up(self) -> None:
        """Begins a new step: waits for nothing that is under way, whose memory stays until it is done."""
        for slot in self.slots:
            if slot.handle:
                _abandoned.append((slot.handle, slot.buffer))
            if slot.gathered is not None:
                _abandoned.extend(slot.gathered.under_way())
            slot.handle, slot.buffer, slot.context, slot.gathered, slot.grouped = 0, None, None, None, False
            slot.gradient = None
        for group in self.groups:
            group.missing = -1
        self.begin_step()
        self.stepped()

    def forget_job(self) -> None:
        """After shutdown(): nothing is under way any more, and what was agreed upon with the other ranks is void."""
        for slot in self.slots:
            slot.forget_job(self.passes)
        self.begin_step()
        self.stepped()
        self.groups = []
        self._arguments = ()
        self._laid_out = False

    def set_passes(self, passes: int) -> None:
        """Changes the number of backward passes, from the next one on."""
        self.passes = passes
        self.begin_step()

    def begin_step(self) -> None:
        """No gradient of the step that begins has come yet."""
        for slot in self.slots:
            slot.delay = self.passes
        self._missing, self._differentiable, self.reduced = -1, False, False

    def stepped(self) -> None:
        """What was reduced has been used."""
        self.reduced = False
        self._round = 1

    def still_reduced(self) -> bool:
        """Whether all gradients are the reduced ones of a backward pass. Not if the script has put others into their
        place since: those are reduced like any.

        Raises:
            RuntimeError: it has, and the operation is Sum, so that nobody knows whether they were made from sums.
        """
        if not self.reduced or self._excluded:
            return self.reduced
        other = next((s for s in self.slots if s.parameter.grad is not None and not s.holds_result()), None)
        if other is not None and self._scaling[0] != reduce_ops.Average:
            raise RuntimeError(
                f"the gradient of `{other.name}` was replaced after backward() had reduced it, and with op=hvd.Sum it "
                "cannot be told whether it is still that of one rank. Change gradients in place, or call "
                "optimizer.synchronize() after backward() and step() inside optimizer.skip_synchronize()."
            )
        return other is None

    def outstanding(self) -> bool:
        """Whether an allreduce has been started and not been waited for."""
        return any(slot.open() for slot in self.slots)

    def finish(self) -> None:
        """Starts the allreduce of every gradient that has not been (a missing one counts as zeros) and waits for all.
        If some fail, the first error is raised once none is under way any more."""
        self.add_thawed()
        for slot in self.slots:
            if not slot.open() and (slot.parameter.requires_grad or slot.parameter.grad is not None):
                self._start(slot)
        for group in self.groups:
            if group.missing >= 0:
                self._submit_group(group)
        first_error = None
        begun = [slot for slot in self.slots if slot.open()]
        # Three rounds at most: in a group, alone, as sparse.
        while begun:
            again = []
            for slot in begun:
                try:
                    if not self._finish_one(slot):
                        again.append(slot)
                except Exception as error:
                    first_error = first_error or error
            for slot in again:
                if not slot.open():
                    self._start(slot)
            begun = again
        self.begin_step()
        self._round = self._round % _ROUNDS_MAX + 1
        if first_error is not None:
            raise first_error

    def _make_hook(self, slot: Slot) -> Callable[[torch.Tensor], None]:
        start = self._start

        def on_gradient(parameter: torch.Tensor) -> None:
            if self.reduced:
                self._begin_again(slot)
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
                if self._missing == 1 or self._missing < 0:
                    self._count()
                else:
                    self._missing -= 1

        return on_gradient

    def _count(self) -> None:
        """Counts the first gradient that is started in a step, and the last, which makes the pass wait at its end."""
        if self._missing < 0:
            self._missing = sum(slot.parameter.requires_grad for slot in self.slots)
        self._missing -= 1
        if self._missing == 0 and self._synchronizes_backward and not self._differentiable:
            torch.autograd.Variable._execution_engine.queue_callback(self._end_backward)

    def _end_backward(self) -> None:
        self.finish()
        self.reduced = True

    def _begin_again(self, slot: Slot) -> None:
        """A gradient has come after all were reduced. An average of one part that all ranks have alike and one that
        they have not is what it should be; a sum is not."""
        if self._scaling[0] != reduce_ops.Average and slot.holds_result():
            raise AssertionError(
                "Gradients were computed more than backward_passes_per_step times before call to step(), and op=hvd.Sum"
                " cannot add to sums. Increase backward_passes_per_step to accumulate gradients locally, or call "
                "optimizer.zero_grad() (the model's is not enough) where a step is left out."
            )
        self.reduced = False

    def _prepare(self) -> None:
        """What has to be done before the first gradient in a job, and whenever parameters have come: gives each
        gradient a name, a group, and a place once all parameters are known."""
        first = not self._arguments
        if first:
            basics.size()  # raises when not initialised
            # In an elastic job hooks are there whoever will be a member.
            self._excluded = not self._process_set.included()
            self._alone = self._process_set.size() == 1 and not is_elastic()
            self._arguments = (process_sets.id_of(self._process_set), *self._scaling)
        if self._excluded or self._alone:
            self._laid_out = True
            return
        for slot in self.slots:
            if not slot.own_name:
                slot.own_name = names.claim(self._process_set, slot.name)
                slot.wire_name = submission.Text(f"allreduce.{slot.own_name}".encode())
        if first and self.groups_wanted is not None:
            self._form_groups()
        if self._compression is not None:
            self._laid_out = True
        elif not self.outstanding():
            self._laid_out = True
            set_id = self._arguments[0]
            places = shared_memory.lay_out([slot.parameter for slot in self.slots], set_id)
            for slot, place in zip(self.slots, places):
                slot.place = place

    def _form_groups(self) -> None:
        """Of the parameters that are trained now; what is in no group, or comes later, is reduced alone."""
        if isinstance(self.groups_wanted, int):
            trained = {slot.name: slot for slot in self.slots if slot.parameter.requires_grad}
            root = self._process_set.ranks[0]
            order = functions.broadcast_object(list(trained), root, "optimizer.groups", self._process_set)
            if set(order) != set(trained):
                differing = sorted(set(order) ^ set(trained))
                raise ValueError(f"rank {root} and this rank train different parameters, among them {differing[0]!r}")
            lists = [[trained[name] for name in part] for part in grouping.split(order, self.groups_wanted)]
        else:
            slots = {slot.parameter: slot for slot in self.slots}
            lists = [[slots[each] for each in group if each in slots] for group in self.groups_wanted]
        self.groups = [Group(members) for members in lists if len(members) > 1]
        for group in self.groups:
            group.name = submission.Text(f"grouped_allreduce.{group.slots[0].own_name}".encode())
            for slot in group.slots:
                slot.group = group

    def _in_place(self, slot: Slot, gradient: torch.Tensor | None) -> torch.Tensor | None:
        """The gradient, zeros if there is none, at its place, still hot. None: it has no place, or somebody keeps the
        one of an earlier step there."""
        place = slot.place
        if place is None:
            return None
        if gradient is not None and place.holds(gradient):
            return gradient
        if slot.parameter.dtype is not place.dtype:
            self._laid_out = False
            return None
        if not place.free() or (gradient is not None and gradient.layout is not torch.strided):
            return None
        packed = place.tensor()
        if gradient is None:
            packed.zero_()
        else:
            packed.copy_(gradient)
        slot.parameter.grad = packed
        return packed

    def _to_reduce(self, slot: Slot) -> torch.Tensor:
        """Plain memory with the slot's gradient, which may be the gradient itself."""
        gradient = slot.parameter.grad
        if gradient is not None and gradient.requires_grad:
            # Made with create_graph=True: the script may still differentiate it.
            self._differentiable = True
            gradient = gradient.detach().clone()
        elif self._compression is None:
            packed = self._in_place(slot, gradient)
            if packed is not None:
                return packed
        if gradient is None:
            gradient = slot.parameter.grad = torch.zeros_like(slot.parameter)
        if self._compression is not None:
            gradient, slot.context = self._compression.compress(gradient)
        if not memory.is_plain(gradient):
            memory.dtype_code(gradient, memory.REDUCIBLE)
            gradient = memory.staged(gradient)
        return gradient

    def _start(self, slot: Slot) -> None:
        if not self._laid_out:
            self._prepare()
        if self._excluded:
            return
        gradient = slot.parameter.grad
        slot.invented = gradient is None
        if self._alone:
            self._start_alone(slot)
            return
        if slot.sparse or (gradient is not None and gradient.layout is torch.sparse_coo):
            if not self._sparse_as_dense:
                self._start_sparse(slot)
                slot.hand_over()
                return
            slot.densified = gradient.sparse_dim()
            slot.parameter.grad = gradient.to_dense()
        with torch.no_grad():
            buffer = self._to_reduce(slot)
        slot.hand_over()
        if slot.group is not None:
            slot.buffer = buffer
            if slot.group.arrived():
                self._submit_group(slot.group)
            return
        pointer = buffer.data_ptr()
        code = memory.REDUCIBLE.get(buffer.dtype)
        if code is None:
            raise ValueError(f"Tensor type {buffer.dtype} is not supported")
        wire_name = slot.wire_name if self._round == 1 else submission.text(self._named("allreduce", slot))
        handle = submit(ALLREDUCE, wire_name, pointer, pointer, code, slot.shape, *self._arguments)
        if handle < 0:
            errors.raise_error(handle)
        slot.buffer = buffer
        slot.handle = handle

    def _named(self, operation: str, slot: Slot) -> str:
        """On the wire, in this round."""
        name = slot.own_name if self._round == 1 else f"{slot.own_name}@{self._round}"
        return f"{operation}.{name}" if operation else name

    def _start_alone(self, slot: Slot) -> None:
        """Lets the gradient be, and treats it as if it were being reduced."""
        gradient = slot.parameter.grad
        if gradient is not None:
            memory.dtype_code(gradient, memory.REDUCIBLE)
            self._differentiable |= gradient.requires_grad
            slot.hand_over()
            slot.buffer = gradient

    def _start_sparse(self, slot: Slot) -> None:
        compression = self._compression or Compression.none
        set_id = self._arguments[0]
        slot.gathered = SparseGradient(slot.parameter, self._named("", slot), slot.sparse, set_id, compression)
        slot.gathered.start()
        if slot.group is not None and not slot.sparse and slot.group.arrived():
            self._submit_group(slot.group)

    def _submit_group(self, group: Group) -> None:
        """Submits what of the group has a gradient."""
        group.missing = -1
        members = []
        for slot in group.slots:
            if slot.sparse or not (slot.open() or slot.parameter.grad is not None):
                continue
            if slot.gathered is not None:
                # Where a rank has no gradient, and so does not know of the others, it finds a tensor of another shape.
                slot.buffer = torch.empty(0, dtype=slot.parameter.dtype)
            elif slot.buffer is None:  # frozen meanwhile
                with torch.no_grad():
                    slot.buffer = self._to_reduce(slot)
            members.append(slot)
        try:
            first = self._round == 1
            name = group.name if first else submission.text(self._named("grouped_allreduce", group.slots[0]))
            grouping.submit(group, name, members, self._arguments)
        except Exception:
            for slot in members:
                slot.buffer, slot.context = None, None
            raise
        for slot in members:
            slot.grouped = True

    def _finish_one(self, slot: Slot) -> bool:
        """Waits for one gradient. False: all ranks have learnt that it has to be started in another way."""
        try:
            if slot.handle:
                self._finish_dense(slot)
            if slot.gathered is not None:
                self._finish_sparse(slot)
            if self._alone:
                slot.buffer = None
                self._take_back(slot)
            if slot.parameter.grad is not None:
                slot.result = weakref.ref(slot.parameter.grad)
        except TensorMismatchError as error:
            if not self._adapts(slot, error):
                raise
            return False
        return True

    def _adapts(self, slot: Slot, error: TensorMismatchError) -> bool:
        """Whether something else is tried, after ranks have disagreed about what they reduce. All have got the same
        text, and so take the same decision."""
        if slot.grouped:
            slot.grouped = False
            if slot.group is not None:
                # Apart from now on, which shows which of its gradients it was.
                self.groups.remove(slot.group)
                for member in slot.group.slots:
                    member.group = None
            return True
        if slot.sparse or self._sparse_as_dense or "Mismatched operations" not in str(error):
            return False
        slot.sparse = True
        if slot.gathered is not None:
            slot.gathered.start_again()
        elif slot.invented:
            slot.parameter.grad = None
        return True

    def _finish_dense(self, slot: Slot) -> None:
        try:
            waiting.wait(slot.handle)
        except Exception:
            slot.handle, slot.buffer, slot.context = 0, None, None
            raise
        self._library.release(slot.handle)
        buffer, context, gradient = slot.buffer, slot.context, slot.parameter.grad
        slot.handle, slot.buffer, slot.context, slot.grouped = 0, None, None, False
        if slot.gathered is not None:
            return  # it stood for a sparse gradient in its group
        self._take_back(slot)
        if gradient is None:
            slot.parameter.grad = gradient = torch.zeros_like(slot.parameter)
        if buffer is not gradient and buffer.data_ptr() != gradient.data_ptr():
            if self._compression is not None:
                buffer = self._compression.decompress(buffer, context)
            if gradient.requires_grad:
                # Values of a graph stay as they are, for those who differentiate it once more.
                slot.parameter.grad = buffer.view(gradient.shape).to(gradient.dtype)
            else:
                with torch.no_grad():
                    gradient.copy_(buffer)
        if slot.densified:
            slot.parameter.grad = slot.parameter.grad.to_sparse(slot.densified)
            slot.densified = 0

    def _take_back(self, slot: Slot) -> None:
        """Raises RuntimeError if the script has changed the gradient while it was being reduced."""
        if slot.take_back():
            return
        without = [f"`{each.name}`" for each in self.slots if each.invented]
        why = (
            f"{', '.join(without[:3])}{' and others' if len(without) > 3 else ''} had no gradient, so that backward() "
            "did not wait for those of the others"
            if without and self._synchronizes_backward
            else "it was made with create_graph=True, and such gradients are reduced in step()"
            if self._differentiable
            else "it is reduced from backward() to step()"
        )
        raise RuntimeError(
            f"the gradient of `{slot.name}` was changed while it was being reduced: {why}. Call "
            "optimizer.synchronize() before gradients are changed, and step() inside optimizer.skip_synchronize()."
        )

    def _finish_sparse(self, slot: Slot) -> None:
        gathered, gradient = slot.gathered, slot.parameter.grad
        factor = 1.0 / self._process_set.size() if self._scaling[0] == reduce_ops.Average else 1.0
        try:
            result = gathered.finish(factor)
        except TensorMismatchError as error:
            if slot.sparse or "Mismatched operations" not in str(error):
                slot.gathered = None
                gathered.give_up()
            raise
        except Exception:
            slot.gathered = None
            gathered.give_up()
            raise
        slot.gathered, slot.sparse = None, True
        self._take_back(slot)
        dense = gradient is not None and gradient.layout is torch.strided
        slot.parameter.grad = result.to_dense() if dense else result
