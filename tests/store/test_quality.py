"""The embedded embedder and the exact engine find what people ask for: questions over sixty short messages."""

import json
from typing import Any

import pytest

from store.embedders.wordllama import WordLlamaEmbedder
from tests.store.vectors.test_engines import row
from tests.zoo import DATA, fill, message, serving, thread

QUALITY: dict[str, list[dict[str, str]]] = json.loads((DATA / "quality.json").read_text())
ASK = """query($text: String) {
  recall(threadId: "t0", resourceId: "res-a", vectorSearchString: $text, perPage: 0,
         threadConfig: {semanticRecall: {topK: 5, messageRange: 0, scope: resource}}) {
    matches { rank score message { id } } engine
  }
}"""
LEAST = 0.9
"""The share of questions whose answer is among the first five."""


@pytest.fixture
async def stored(plain_database: Any) -> Any:
    """The messages, four threads of one owner, with the vectors of the default embedder."""
    texts = [entry["text"] for entry in QUALITY["messages"]]
    vectors = (await WordLlamaEmbedder().embed(texts)).vectors.tolist()
    places = {entry["id"]: f"t{number % 4}" for number, entry in enumerate(QUALITY["messages"])}
    await fill(
        plain_database,
        threads=[thread(f"t{number}") for number in range(4)],
        messages=[
            message(entry["id"], places[entry["id"]], number, text=entry["text"])
            for number, entry in enumerate(QUALITY["messages"])
        ],
    )
    await plain_database.memory_messages_256.insert_many(
        [row(id, vector, thread=thread) for (id, thread), vector in zip(places.items(), vectors, strict=True)]
    )
    return plain_database


async def test_the_answer_is_among_the_first_five(stored: Any) -> None:
    async with serving(stored, embedder="wordllama", vector_engine="exact") as client:
        answers = [(await client.ask(ASK, text=question["text"])).data["recall"] for question in QUALITY["questions"]]
    assert {answer["engine"] for answer in answers} == {"EXACT"}
    found = [[match["message"]["id"] for match in answer["matches"]] for answer in answers]
    missed = [
        question["text"]
        for question, ids in zip(QUALITY["questions"], found, strict=True)
        if question["answer"] not in ids
    ]
    assert {len(ids) for ids in found} == {5}
    assert 1 - len(missed) / len(found) >= LEAST, missed


async def test_a_text_finds_itself_first(stored: Any) -> None:
    async with serving(stored, embedder="wordllama", vector_engine="exact") as client:
        for entry in QUALITY["messages"][::10]:
            best = (await client.ask(ASK, text=entry["text"])).data["recall"]["matches"][0]
            assert best == {"rank": 1, "score": pytest.approx(1, abs=1e-5), "message": {"id": entry["id"]}}
