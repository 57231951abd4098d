"""Masks for the attention of a transformer, alike whatever the other rows of a batch are."""

from __future__ import annotations

import torch


def attention_mask(there: torch.Tensor, causal: bool = False) -> torch.Tensor:
    """Returns (n, 1, T, T) float32: 0 where a position may look, the lowest number elsewhere.

    `there` (n, T), bool: which words a row has, the others fill it up. `causal`: a position looks at itself
    and those before it, as in GPT-2. Models of the package transformers add such a mask as it is; of one of
    (n, T) they see first whether the whole batch is full, so a row's numbers depend on the other rows.

    >>> attention_mask(torch.tensor([[True, True, False]]), causal=True)[0, 0] == 0
    tensor([[ True, False, False],
            [ True,  True, False],
            [ True,  True, False]])
    """
    words = there.shape[1]
    may = there.bool()[:, None, None].expand(-1, 1, words, -1)
    if causal:
        may = may & torch.ones(words, words, dtype=torch.bool, device=there.device).tril()
    lowest = torch.finfo(torch.float32).min
    return torch.zeros(may.shape, device=there.device).masked_fill(~may, lowest)
