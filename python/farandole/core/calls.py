"""What a collective is apart from its tensors, as text: the attribute of an operation in a framework's program."""

from __future__ import annotations

from typing import NamedTuple

from farandole.library import submission

OPERATIONS = {
    submission.ALLREDUCE: "allreduce",
    submission.ALLGATHER: "allgather",
    submission.BROADCAST: "broadcast",
    submission.ALLTOALL: "alltoall",
    submission.REDUCESCATTER: "reducescatter",
}
# Several of these are executed together or not at all.
GROUPED = (submission.ALLREDUCE, submission.ALLGATHER, submission.REDUCESCATTER)
# Elements are combined, and not moved only.
COMPUTES = (submission.ALLREDUCE, submission.REDUCESCATTER)


class Call(NamedTuple):
    """One collective, apart from its tensors.

    Attributes:
        operation: as in `farandole.library.submission`.
        name: of all its tensors together; "": the library makes one by order of submission.
        op, prescale_factor, postscale_factor: of a reduction.
        root_rank: of a broadcast.
        set_id: number of the process set.
        life: in which the set has this number, where a program may outlast it.
        layout: for arrays into which others were laid: what tells apart whether that was done alike on all ranks.
    """

    operation: int
    name: str = ""
    op: int = 0
    prescale_factor: float = 1.0
    postscale_factor: float = 1.0
    root_rank: int = 0
    set_id: int = 0
    life: int = 0
    layout: str = ""

    @property
    def is_own_alone(self) -> bool:
        """With one rank the results are the tensors themselves."""
        return self.operation == submission.ALLREDUCE and self.prescale_factor == 1.0 and self.postscale_factor == 1.0

    @property
    def group(self) -> str:
        """What its tensors are called together on the wire."""
        behind = f" of arrays with the shapes {self.layout}" if self.layout else ""
        return f"grouped_{OPERATIONS[self.operation]}.{self.name}{behind}"

    def text(self, count: int) -> str:
        """As frameworks/plugin/call.h reads it. The `count` tensors have the names on the wire that `Collectives` gives
        them."""
        kind, name = OPERATIONS[self.operation], self.name.replace("\n", " ")
        group = self.group.replace("\n", " ") if name else ""
        if not name or (count > 1 and self.operation in GROUPED and not self.layout):
            names = [""] * count
        else:
            names = [f"{kind}.{each}" for each in (laid_names if self.layout else member_names)(name, count)]
        head = (
            self.operation,
            self.op,
            self.prescale_factor,
            self.postscale_factor,
            self.root_rank,
            self.set_id,
            self.life,
            int(bool(self.layout)),
        )
        return "".join(f"{line}\n" for line in (" ".join(map(repr, head)), group, *names))


def member_names(name: str, count: int) -> list[str]:
    """What several tensors of one call are called that are not a group."""
    return [name] if count == 1 else [f"{name}.{index}" for index in range(count)]


def laid_names(name: str, count: int) -> list[str]:
    """The same of a call with a layout. The first is called alike however many there are, so that ranks with other
    layouts meet at it, and are told so."""
    return [name, *(f"{name}.{index}" for index in range(1, count))]


def parse(text: str) -> Call:
    """The call whose `text` this is."""
    head, group, *_ = text.split("\n")
    operation, op, prescale_factor, postscale_factor, root_rank, set_id, life, *_ = head.split(" ")
    name = group.partition(".")[2]
    return Call(
        int(operation),
        name,
        int(op),
        float(prescale_factor),
        float(postscale_factor),
        int(root_rank),
        int(set_id),
        int(life),
    )
