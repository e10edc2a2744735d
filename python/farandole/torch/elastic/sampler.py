"""The sampler of elastic training as a sampler of torch."""

from __future__ import annotations

import torch

from farandole.elastic import sampler


class ElasticSampler(sampler.ElasticSampler, torch.utils.data.Sampler[int]):
    """`farandole.elastic.ElasticSampler` as a sampler of torch, for a DataLoader."""
