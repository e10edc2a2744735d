"""Trains a small GPT on characters of Python's own documentation, which comes with its standard library.

farandole run -np 2 python examples/torch_gpt.py
python examples/torch_gpt.py --steps 2000 --sample 400
"""

from __future__ import annotations

import argparse
import math
import pydoc_data.topics
import time

import torch
import torch.nn.functional as F
from torch import nn

import farandole.torch as hvd


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.attention(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, symbols: int, context: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.context = context
        self.token, self.position = nn.Embedding(symbols, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, symbols)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))

    @torch.no_grad()
    def sample(self, tokens: torch.Tensor, length: int) -> torch.Tensor:
        for _ in range(length):
            logits = self(tokens[:, -self.context :])[:, -1]
            tokens = torch.cat([tokens, torch.multinomial(logits.softmax(-1), 1)], 1)
        return tokens


def load_text() -> tuple[str, torch.Tensor]:
    """The characters that occur, and the text as their numbers."""
    text = "\n".join(pydoc_data.topics.topics[name] for name in sorted(pydoc_data.topics.topics))
    symbols = "".join(sorted(set(text)))
    number = {symbol: i for i, symbol in enumerate(symbols)}
    return symbols, torch.tensor([number[symbol] for symbol in text])


def random_batch(data: torch.Tensor, count: int, context: int) -> tuple[torch.Tensor, torch.Tensor]:
    starts = torch.randint(len(data) - context, (count,))
    rows = torch.stack([data[start : start + context + 1] for start in starts])
    return rows[:, :-1], rows[:, 1:]


def loss_of(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())


def learning_rate(step: int, steps: int) -> float:
    """Share of the greatest one: rises for a tenth of the steps, then falls along a cosine."""
    warmup = max(1, steps // 10)
    return min(1.0, (step + 1) / warmup) * (0.55 + 0.45 * math.cos(math.pi * step / steps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=16, help="of each process")
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--sample", type=int, default=0, help="characters to write at the end")
    args = parser.parse_args()

    hvd.init()
    started = time.monotonic()
    symbols, data = load_text()
    held_out = len(data) // 10
    train, test = data[:-held_out], data[-held_out:]

    torch.manual_seed(0)
    model = GPT(len(symbols), args.context, args.width, args.heads, args.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.1)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), groups=args.layers)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: learning_rate(step, args.steps))

    torch.manual_seed(1 + hvd.rank())  # other batches in each process
    for step in range(args.steps):
        optimizer.zero_grad()
        loss = loss_of(model, *random_batch(train, args.batch_size, args.context))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        if step % 50 == 0 and hvd.rank() == 0:
            print(f"step {step}/{args.steps}, loss {loss.item():.3f}", flush=True)

    # Each process has looked at batches of its own; the mean is that of all.
    with torch.no_grad():
        loss = hvd.allreduce(loss_of(model, *random_batch(test, 4 * args.batch_size, args.context)), name="test")
    if hvd.rank() == 0:
        seconds = time.monotonic() - started
        print(f"test loss {loss.item():.3f}, processes {hvd.size()}, seconds {seconds:.1f}")
        if args.sample:
            written = model.sample(torch.zeros(1, 1, dtype=torch.long), args.sample)[0]
            print("".join(symbols[number] for number in written))
    hvd.shutdown()


if __name__ == "__main__":
    main()
