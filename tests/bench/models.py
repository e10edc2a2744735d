"""The networks that bench_data and bench_gpu train: ResNet-18 and ResNet-50 as published, a GPT of 10 million
parameters, and one of the size of GPT-2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn

WrapModel = Optional[Callable[[nn.Module], nn.Module]]
WrapOptimizer = Optional[Callable[[nn.Module, torch.optim.Optimizer], torch.optim.Optimizer]]


class BasicBlock(nn.Module):
    """Two 3x3 convolutions around which the input is added again."""

    WIDER = 1

    def __init__(self, before: int, channels: int, stride: int) -> None:
        """`before`: channels that come in; `stride`: of the first convolution."""
        super().__init__()
        self.first = nn.Conv2d(before, channels, 3, stride, 1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(before, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(y)) + self.shortcut(x))


class Bottleneck(nn.Module):
    """A 3x3 convolution between two of 1x1, around which the input is added again."""

    WIDER = 4

    def __init__(self, before: int, channels: int, stride: int) -> None:
        """`before`: channels that come in; 4 `channels` go out; `stride`: of the middle convolution."""
        super().__init__()
        after = self.WIDER * channels
        self.body = nn.Sequential(
            nn.Conv2d(before, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, stride, 1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


class ResNet(nn.Module):
    """He et al., Deep Residual Learning for Image Recognition (2015), table 1: images [batch, 3, height, width] ->
    logits [batch, 1000]. 18 layers have 11.7 million parameters, 50 have 25.6."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        block, counts = {18: (BasicBlock, (2, 2, 2, 2)), 50: (Bottleneck, (3, 4, 6, 3))}[layers]
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks, before = [], 64
        for channels, count in zip((64, 128, 256, 512), counts):
            for index in range(count):
                blocks.append(block(before, channels, 2 if index == 0 and channels != 64 else 1))
                before = channels * block.WIDER
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(before, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(images)).mean((2, 3)))


class Layer(nn.Module):
    """Causal attention and a two-layer perceptron, each after a norm and around which its input is added again."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = self.qkv(self.attention_norm(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.mlp_norm(x))


class Gpt(nn.Module):
    """Radford et al., Language Models are Unsupervised Multitask Learners (2019): token numbers [batch, tokens] ->
    logits [batch, tokens, vocabulary]. As given, 9.8 million parameters; `GPT_2` has 124 million, since its head shares
    the weights of the embedding."""

    def __init__(
        self,
        width: int = 360,
        layers: int = 6,
        heads: int = 6,
        vocabulary: int = 512,
        tokens: int = 128,
        shares_head: bool = False,
    ) -> None:
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(tokens, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        if shares_head:
            self.head.weight = self.token.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        return self.head(self.norm(self.layers(x)))


GPT_2 = {"width": 768, "layers": 12, "heads": 12, "vocabulary": 50257, "tokens": 1024, "shares_head": True}

# For each network: how it is made; of a batch the samples, and the pixels of a side, or the tokens.
NETWORKS: dict[str, tuple[Callable[[], nn.Module], int, int]] = {
    "resnet18": (lambda: ResNet(18), 8, 32),
    "resnet50": (lambda: ResNet(50), 32, 224),
    "gpt": (Gpt, 4, 128),
    "gpt124m": (lambda: Gpt(**GPT_2), 8, 1024),
}


class Work:
    """A network on torch's default device, an optimizer that is made for it, and batches of random data, another one
    every step.

    `wrap_optimizer(model, optimizer)` and `wrap_model(model)` make it a distributed one."""

    def __init__(
        self, name: str, rank: int, wrap_model: WrapModel = None, wrap_optimizer: WrapOptimizer = None
    ) -> None:
        torch.manual_seed(0)
        make, self._samples, self._extent = NETWORKS[name]
        self.plain = make()
        self.model = wrap_model(self.plain) if wrap_model else self.plain
        optimizer = torch.optim.SGD(self.plain.parameters(), lr=1e-3, momentum=0.9)
        self.optimizer = wrap_optimizer(self.plain, optimizer) if wrap_optimizer else optimizer
        self._random = torch.Generator(torch.empty(0).device).manual_seed(1 + rank)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and what they should become."""
        if isinstance(self.plain, ResNet):
            images = torch.randn(self._samples, 3, self._extent, self._extent, generator=self._random)
            return images, torch.randint(1000, (self._samples,), generator=self._random)
        vocabulary = self.plain.token.num_embeddings
        text = torch.randint(vocabulary, (self._samples, self._extent + 1), generator=self._random)
        return text[:, :-1], text[:, 1:]

    def backward(self) -> None:
        """Gradients of the next batch."""
        inputs, targets = self.batch()
        F.cross_entropy(self.model(inputs).flatten(0, -2), targets.flatten()).backward()

    def step(self) -> None:
        """One step of training."""
        self.optimizer.zero_grad()
        self.backward()
        self.optimizer.step()
