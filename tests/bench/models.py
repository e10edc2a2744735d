"""The two networks that bench_data trains: ResNet-18 as published, and a GPT of 10 million parameters."""

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


class ResNet18(nn.Module):
    """He et al., Deep Residual Learning for Image Recognition (2015), table 1, 11.7 million parameters: images
    [batch, 3, height, width] -> logits [batch, 1000]."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks, before = [], 64
        for channels in (64, 128, 256, 512):
            blocks += [BasicBlock(before, channels, 1 if channels == 64 else 2), BasicBlock(channels, channels, 1)]
            before = channels
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, 1000)

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
    """Radford et al., Language Models are Unsupervised Multitask Learners (2019), with 6 layers of width 360 and a
    vocabulary of 512, 9.8 million parameters: token numbers [batch, tokens] -> logits [batch, tokens, VOCABULARY]."""

    VOCABULARY = 512
    TOKENS = 128

    def __init__(self, width: int = 360, layers: int = 6, heads: int = 6) -> None:
        super().__init__()
        self.token = nn.Embedding(self.VOCABULARY, width)
        self.position = nn.Embedding(self.TOKENS, width)
        self.layers = nn.Sequential(*(Layer(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, self.VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.position.weight[: tokens.shape[1]]
        return self.head(self.norm(self.layers(x)))


class Work:
    """A network, an optimizer that is made for it, and batches of random data, another one every step.

    `wrap_optimizer(model, optimizer)` and `wrap_model(model)` make it a distributed one."""

    def __init__(
        self, name: str, rank: int, wrap_model: WrapModel = None, wrap_optimizer: WrapOptimizer = None
    ) -> None:
        torch.manual_seed(0)
        self.plain = ResNet18() if name == "resnet18" else Gpt()
        self.model = wrap_model(self.plain) if wrap_model else self.plain
        optimizer = torch.optim.SGD(self.plain.parameters(), lr=1e-3, momentum=0.9)
        self.optimizer = wrap_optimizer(self.plain, optimizer) if wrap_optimizer else optimizer
        self._images = name == "resnet18"
        self._random = torch.Generator().manual_seed(1 + rank)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and what they should become: 8 images of 32x32, or 4 texts of 128 tokens."""
        if self._images:
            images = torch.randn(8, 3, 32, 32, generator=self._random)
            return images, torch.randint(1000, (8,), generator=self._random)
        text = torch.randint(Gpt.VOCABULARY, (4, Gpt.TOKENS + 1), generator=self._random)
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
