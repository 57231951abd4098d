"""Models as a user may write them, for tests to name by import path."""

from __future__ import annotations

import torch
from torch import nn

from node.models import attention_mask, with_adapters


class Normed(nn.Module):
    """Batch normalisation computes statistics over all rows, so no row has its own gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 10))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layers(rows.flatten(1))


class WithBody(nn.Module):
    """A body with batch norm, and a head."""

    def __init__(self, inputs: int = 64, outputs: int = 10) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.head = nn.Linear(16, outputs)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(rows.flatten(1)))


class Remembering(nn.Module):
    """Three buffers: one that training changes, one that counts, and one that is constant."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)
        self.register_buffer("centre", torch.zeros(64))
        self.register_buffer("steps", torch.tensor(0))
        self.register_buffer("used", torch.ones(64, dtype=torch.bool))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self.training:
            with torch.no_grad():
                self.centre.lerp_(rows.mean(0), 0.5)
                self.steps += 1
        return self.layer((rows - self.centre) * self.used)


class Dropping(nn.Module):
    """Dropout, which draws from torch's own generator."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Dropout(0.5), nn.Linear(64, 10))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layers(rows.flatten(1))


class Tied(nn.Module):
    """One matrix under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Linear(64, 64, bias=False)
        self.two = nn.Linear(64, 64, bias=False)
        self.two.weight = self.one.weight
        self.head = nn.Linear(64, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.two(torch.relu(self.one(rows)))))


class Lazy(nn.Module):
    """A layer that does not know its size yet."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LazyLinear(10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows)


class Brainy(nn.Module):
    """A buffer of bfloat16, which numpy cannot represent in a model file."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 10)
        self.register_buffer("scale", torch.ones(1, dtype=torch.bfloat16))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows) * self.scale


class OneLogit(nn.Module):
    """One number for two classes, (n, 1)."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.layer = nn.Linear(inputs, 1)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows)


class Adapted(nn.Module):
    """A small transformer over eight words of eight numbers, with low-rank adapters, and a head."""

    def __init__(self, rank: int = 2, width: int = 8) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 2, 16, dropout=0.0, batch_first=True)
        self.body = with_adapters(layer, "linear*", rank)
        self.head = nn.Linear(width, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(rows.reshape(-1, 8, 8)).mean(1))


class LanguageModel(nn.Module):
    """BERT with adapters of peft, or GPT-2 with those of this package, over words, of which 0 is none."""

    def __init__(self, kind: str) -> None:
        import transformers  # noqa: PLC0415 - an extra
        from peft import LoraConfig, get_peft_model  # noqa: PLC0415 - an extra

        super().__init__()
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 32}
        if kind == "Bert":
            none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
            body = transformers.BertModel(transformers.BertConfig(**sizes, **none, intermediate_size=16))
            self.body = get_peft_model(body, LoraConfig(r=2, target_modules=["query", "value"]))
            for name, value in self.body.named_parameters():
                value.requires_grad_("lora_B" in name)
        else:
            ends = {"bos_token_id": None, "eos_token_id": None}
            self.body = with_adapters(
                transformers.GPT2Model(transformers.GPT2Config(**sizes, **ends)), "*.c_proj", 2
            )
        self.is_causal = kind == "GPT2"
        self.head = nn.Linear(16, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        words = rows.long()
        mask = attention_mask(words != 0, self.is_causal)
        return self.head(self.body(input_ids=words, attention_mask=mask).last_hidden_state.mean(1))
