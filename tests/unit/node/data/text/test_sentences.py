"""Sentence encoders in folders. What computes them is an extra: some of the tests need it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from node.data.encoding import encode
from node.data.files.csv_and_parquet import read_frame
from node.data.text.sentences import encoded, find_encoder
from tests.own_data import TARGET, schema, told

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "chest", "pain", "no", "complaints")
CONFIG = {
    "model_type": "bert",
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "vocab_size": len(WORDS),
    "max_position_embeddings": 16,
}
TOKENS = {
    "version": "1.0",
    "truncation": None,
    "padding": {"strategy": {"Fixed": 12}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0}
    | {"pad_type_id": 0, "pad_token": "[PAD]"},
    "added_tokens": [],
    "normalizer": {"type": "Lowercase"},
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {word: place for place, word in enumerate(WORDS)}}
    | {"unk_token": "[UNK]"},
}


@pytest.fixture
def folder(tmp_path):
    """A folder of an encoder without weights."""
    parts = [{"type": f"sentence_transformers.models.{name}"} for name in ("Transformer", "Pooling")]
    files = {"config": CONFIG, "tokenizer": TOKENS, "1_Pooling/config": {"pooling_mode_mean_tokens": True}}
    for name, content in {**files, "modules": parts, "sentence_bert_config": {"max_seq_length": 6}}.items():
        path = tmp_path / "encoder" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    (tmp_path / "encoder" / "model.safetensors").write_bytes(b"")
    return tmp_path / "encoder"


@pytest.fixture
def whole(folder):
    """The same with weights."""
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    torch.manual_seed(0)
    transformers.BertModel(transformers.BertConfig(**CONFIG)).save_pretrained(folder)
    return folder


def test_an_encoder_is_known_by_its_files(folder):
    found = find_encoder(str(folder))
    assert (found.width, found.tokens, found.by_first) == (8, 6, False)
    assert len(found.digest) == 64
    assert find_encoder(str(folder)) == found
    (folder / "config.json").write_text(json.dumps(CONFIG | {"hidden_size": 10}))
    assert find_encoder(str(folder)).digest != found.digest


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("config.json", "[]", "cannot be used"),
        ("config.json", '{"hidden_size": 100000}', "its vectors have 100000 numbers"),
        ("config.json", "{", "cannot be used"),
        ("1_Pooling/config.json", '{"pooling_mode_max_tokens": true}', "its pooling is neither the mean"),
        ("modules.json", '[{"type": "mine.Own"}]', "its part 'mine.Own' is none of Transformer, Pooling"),
        ("tokenizer.json", None, "No such file"),
    ],
)
def test_what_is_no_encoder_is_said_in_a_line(folder, name, content, complaint):
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_text(content)
    assert complaint in told(find_encoder, str(folder))


def test_a_package_that_is_not_there():
    assert "'package:no_such_one' is not installed; pip install" in told(find_encoder, "package:no_such_one")
    assert "is not installed" in told(find_encoder, "package:not.a/name")


def test_members_whose_encoders_differ_are_told(folder, tmp_path):
    (tmp_path / "rows.csv").write_text("note,outcome\nchest pain,ill\nno complaints,well\n")
    column = {"name": "note", "kind": "text", "width": 8, "encoder": "0" * 64}
    read = schema({"kind": "table", "target": TARGET, "columns": [column]})
    line = told(
        lambda: encode(replace(read, encoder_at=str(folder)), read_frame(tmp_path / "rows.csv", None))
    )
    assert "is encoded by the sentence encoder 0000000000000000..., of 8 numbers" in line


def test_a_text_is_encoded_alike_beside_all_others(whole):
    encoder = find_encoder(str(whole))
    texts = ["chest pain", "no complaints", "pain", "chest pain no complaints " * 9]
    together, cut = encoded(encoder, texts)
    assert (together.shape, cut) == ((4, 8), 1)
    alone = np.concatenate([encoded(encoder, [text])[0] for text in texts])
    assert np.allclose(together, alone, atol=1e-6)
    assert np.linalg.norm(together[0] - together[1]) > 1e-3
    first, _ = encoded(replace(encoder, by_first=True), texts)
    assert not np.allclose(first[0], together[0])
    (whole / "model.safetensors").write_bytes(b"nothing")
    assert "cannot be loaded" in told(encoded, encoder, texts)
