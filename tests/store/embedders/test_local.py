"""The models that run in this process: WordLlama, which its package brings along, and FastEmbed's."""

import json
import logging
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from store.embedders.fastembed import FastEmbedEmbedder
from store.embedders.wordllama import WordLlamaEmbedder
from store.errors import EmbedderFailed

needs_fastembed = pytest.mark.skipif(find_spec("fastembed") is None, reason="the extra fastembed is not installed")

WORDS = ["[UNK]", "rain", "sun", "bill"]


@pytest.fixture
def potion(tmp_path: Path) -> Path:
    """The files of a static model that knows three words, in the form that fastembed reads."""
    save_file({"embeddings": np.eye(4, 256, dtype=np.float32)}, tmp_path / "model.safetensors")
    vocabulary = {word: number for number, word in enumerate(WORDS)}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    return tmp_path


async def test_wordllama_finds_what_is_close_in_meaning() -> None:
    vectors = (await WordLlamaEmbedder().embed(["the invoice is wrong", "billing error", "sunny weather"])).vectors
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert unit[0] @ unit[1] > unit[0] @ unit[2] + 0.1


async def test_wordllama_has_shorter_vectors_too() -> None:
    short, long = WordLlamaEmbedder(64), WordLlamaEmbedder()
    vectors = [(await embedder.embed(["word"])).vectors[0] for embedder in (short, long)]
    assert np.allclose(vectors[0], vectors[1][:64])
    assert short.model != long.model


def test_wordllama_refuses_a_length_it_does_not_have() -> None:
    with pytest.raises(EmbedderFailed, match="64, 128 or 256 numbers, not 300"):
        WordLlamaEmbedder(300)


async def test_loading_wordllama_leaves_the_root_logger_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    for name in [name for name in sys.modules if name.split(".")[0] == "wordllama"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(root, "handlers", [])
    level = root.level
    await WordLlamaEmbedder().embed(["word"])
    assert (root.handlers, root.level) == ([], level)


@needs_fastembed
async def test_fastembed_runs_a_model_from_a_folder(potion: Path) -> None:
    embedder = FastEmbedEmbedder("minishlab/potion-base-8M", folder=str(potion), offline=True)
    vectors = (await embedder.embed(["rain", "bill bill", ""])).vectors
    assert vectors.argmax(axis=1).tolist()[:2] == [WORDS.index("rain"), WORDS.index("bill")]
    assert not vectors[2].any()
    assert embedder.dimensions == 256


@needs_fastembed
async def test_fastembed_fails_for_an_unknown_model() -> None:
    with pytest.raises(EmbedderFailed, match="no/such-model could not be loaded"):
        await FastEmbedEmbedder("no/such-model").embed(["text"])


@needs_fastembed
async def test_fastembed_offline_fails_for_a_model_that_is_not_there(tmp_path: Path) -> None:
    embedder = FastEmbedEmbedder("minishlab/potion-base-8M", cache=str(tmp_path), offline=True)
    with pytest.raises(EmbedderFailed, match="could not be loaded"):
        await embedder.embed(["text"])


@pytest.mark.parametrize(
    ("package", "embedder"), [("fastembed", FastEmbedEmbedder()), ("wordllama", WordLlamaEmbedder())]
)
async def test_a_missing_package_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, package: str, embedder: FastEmbedEmbedder | WordLlamaEmbedder
) -> None:
    # How Python marks a module that cannot be imported.
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EmbedderFailed, match=rf"pip install 'recallql\[{package}\]'"):
        await embedder.embed(["text"])
