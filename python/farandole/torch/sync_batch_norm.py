"""Batch normalisation over the batches of all ranks."""

from __future__ import annotations

import weakref
from typing import Any

import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from farandole.core import names, reduce_ops
from farandole.core.handles import synchronize
from farandole.process import basics
from farandole.process_sets import global_process_set
from farandole.torch.collectives import operations

# Not attributes of the modules, or they would be saved and loaded with these.
_own_names: weakref.WeakKeyDictionary[SyncBatchNorm, str] = weakref.WeakKeyDictionary()
basics.after_shutdown(_own_names.clear)


def _sum(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """Over all ranks, in place. An allreduce, because repeating steps may hold it without control messages."""
    return synchronize(operations.allreduce_async_(tensor, name=name, op=reduce_ops.Sum))


def _accumulation_type(tensor: torch.Tensor) -> torch.dtype:
    return tensor.dtype if tensor.dtype in (torch.float32, torch.float64) else torch.float32


def _moments(rows: torch.Tensor, name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Mean and biased variance of each channel over all ranks, float64 of shape (channels,), and how many values, of
    shape ().

    Args:
        rows: (n, channels, ...); n may differ between ranks, and be 0.
    """
    channels, axes = rows.shape[1], [axis for axis in range(rows.dim()) if axis != 1]
    table = torch.zeros(basics.size(), 2 * channels + 1, dtype=torch.float64, device=rows.device)
    own = table[basics.rank()]
    count = rows.numel() // channels
    if count:
        variance, mean = torch.var_mean(rows.to(_accumulation_type(rows)), axes, unbiased=False)
        own[0] = count
        own[1 : channels + 1] = mean
        own[channels + 1 :] = variance
    _sum(table, name)
    counts, means, variances = table[:, :1], table[:, 1 : channels + 1], table[:, channels + 1 :]
    total = counts.sum()
    # The host looks at what a device computes, and waits for it, only where that may be.
    if count < 2 and total < 2:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got {int(total)} from {basics.size()} ranks"
        )
    # Of several samples: Chan, Golub, LeVeque, Updating Formulae and a Pairwise Algorithm, 1979.
    mean = (counts * means).sum(0) / total
    variance = (counts * (variances + (means - mean).square())).sum(0) / total
    return mean, variance, total


def _by_channel(vector: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """`vector`, (channels,), for arithmetic with `like`, (n, channels, ...)."""
    return vector.to(_accumulation_type(like)).view(1, -1, *[1] * (like.dim() - 2))


class _Normalize(torch.autograd.Function):
    """(input - mean) / deviation * weight + bias, where mean and deviation depend on the input of all ranks."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        mean: torch.Tensor,
        variance: torch.Tensor,
        eps: float,
        total: torch.Tensor,
        name: str,
    ) -> torch.Tensor:
        ctx.save_for_backward(rows, weight, mean, torch.rsqrt(variance + eps), total)
        ctx.name = name
        wide = _accumulation_type(rows)
        if rows.numel() == 0:
            return torch.empty_like(rows)
        return F.batch_norm(rows, mean.to(wide), variance.to(wide), weight, bias, False, 0.0, eps)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        rows, weight, mean, inverse, total = ctx.saved_tensors
        channels, axes = rows.shape[1], [axis for axis in range(rows.dim()) if axis != 1]
        wide = gradient.to(_accumulation_type(rows))
        centered = rows.to(_accumulation_type(rows)) - _by_channel(mean, rows)
        own = torch.cat([wide.sum(axes), (wide * centered).sum(axes)]).to(torch.float64)
        sums = _sum(own.clone(), ctx.name)
        gradient_rows = None
        if ctx.needs_input_grad[0]:
            inner = wide - _by_channel(sums[:channels] / total, rows)
            inner -= centered * _by_channel(sums[channels:] / total * inverse.square(), rows)
            scale = inverse if weight is None else inverse * weight
            gradient_rows = (inner * _by_channel(scale, rows)).to(rows.dtype)
        gradient_weight = gradient_bias = None
        if weight is not None:
            gradient_weight = (own[channels:] * inverse).to(weight.dtype)
            gradient_bias = own[:channels].to(weight.dtype)
        return gradient_rows, gradient_weight, gradient_bias, None, None, None, None, None


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation whose statistics in training are those of the batches of all ranks together, which may be of
    different sizes. In evaluation, and of one rank, what `torch.nn.BatchNorm1d` and its like do.

    All ranks have to run it equally often in training, and all or none of them its backward. Gradients of weight and
    bias are those of the own rank's loss, as of any other layer.

    Args:
        num_features: channels; the input is (n, channels) or (n, channels, ...), of a floating-point type. n may be 0
            on some ranks.
        eps: added to the variance.
        momentum: weight of the newest statistics in the running ones; None: their plain mean.
        affine: has a weight and a bias for each channel.
        track_running_stats: keeps running statistics, for evaluation.

    Raises:
        ValueError: the input has less than 2 dimensions; all ranks together have less than 2 values for a channel.
        HorovodInternalError: ranks differ about the channels, or a peer was lost.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-05,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats)

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")
        if input.shape[1] != self.num_features:
            raise ValueError(f"expected input with {self.num_features} channels, got shape {tuple(input.shape)}")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Normalises each channel of `input`; the result has its shape and type."""
        self._check_input_dim(input)
        if not self.training or basics.size() == 1:
            return super().forward(input)
        mean, variance, total = _moments(input.detach(), f"{self._own_name()}.moments")
        if self.track_running_stats:
            self._track(mean, variance * total / (total - 1))
        return _Normalize.apply(
            input, self.weight, self.bias, mean, variance, self.eps, total, f"{self._own_name()}.sums"
        )

    @torch.no_grad()
    def _track(self, mean: torch.Tensor, variance: torch.Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        factor = self.momentum if self.momentum is not None else 1.0 / float(self.num_batches_tracked)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), factor)
        self.running_var.lerp_(variance.to(self.running_var.dtype), factor)

    def _own_name(self) -> str:
        own = _own_names.get(self)
        if own is None:
            own = _own_names[self] = names.claim(global_process_set, "sync_batch_norm")
        return own
