"""Random calls of farandole.torch. argv: examples of each collective."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import random_calls
import torch

import farandole.torch as hvd


class Torch(random_calls.Front):
    """With tensors that lie in several ways, asynchronous calls, and calls in place."""

    hvd = hvd
    dtypes = ["float32", "float16", "bfloat16", "float64", "int32", "int64", "uint8", "int8", "int16", "bool"]
    forms = ["sync", "async", "sync in place", "async in place"]
    layouts = ["contiguous", "transposed", "every other", "offset"]
    splits = ["none", "empty", "given"]

    def tensor(self, value: np.ndarray, dtype: str, layout: str) -> torch.Tensor:
        tensor = torch.from_numpy(np.asarray(value)).to(getattr(torch, dtype))
        if layout == "transposed" and tensor.dim() >= 2:
            return tensor.transpose(0, -1).clone(memory_format=torch.contiguous_format).transpose(0, -1)
        if layout == "every other" and tensor.dim():
            room = torch.zeros(*tensor.shape[:-1], tensor.shape[-1] * 2, dtype=tensor.dtype)
            room[..., ::2] = tensor
            return room[..., ::2]
        if layout == "offset":
            room = torch.zeros(tensor.numel() + 1, dtype=tensor.dtype)
            room[1:] = tensor.flatten()
            return room[1:].reshape(tensor.shape)
        return tensor

    def value(self, tensor: torch.Tensor) -> tuple[str, np.ndarray]:
        exact = tensor.to(torch.float64 if tensor.dtype.is_floating_point else torch.int64)
        return str(tensor.dtype).partition(".")[2], exact.numpy()

    def run(self, call: random_calls.Call, given_tensor: Any, **arguments: Any) -> Any:
        """Looks whether the right tensors were changed."""
        if arguments.get("splits"):
            arguments["splits"] = torch.tensor(arguments["splits"], dtype=torch.int32)
        in_place = "in place" in call.form and hasattr(hvd, f"{call.operation}_")
        mark = "_" if in_place else ""
        tensors = given_tensor if isinstance(given_tensor, list) else [given_tensor]
        before = [tensor.clone() for tensor in tensors]
        if "async" in call.form:
            result = hvd.synchronize(getattr(hvd, f"{call.operation}_async{mark}")(given_tensor, **arguments))
        else:
            result = getattr(hvd, call.operation + mark)(given_tensor, **arguments)
        if in_place:
            results = result if isinstance(given_tensor, list) else [result]
            assert all(new is tensor for new, tensor in zip(results, tensors))
        else:
            assert all(map(torch.equal, tensors, before))
        return result


def main(examples: int) -> None:
    hvd.init()
    random_calls.check_all(Torch(), examples)
    print("operations", len(random_calls.OPERATIONS), "rank", hvd.rank(), "of", hvd.size(), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]))
