"""Surprisal of texts in Python: one or many, after other text, from plain text."""

import cProfile
import logging
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lmzoo.api import Loaded
from lmzoo.api.predictor import Predictor
from lmzoo.api.texts import Texts
from lmzoo.core.errors import UserError
from lmzoo.corpus import Vocabulary
from lmzoo.corpus.form import Form
from lmzoo.protocol.model import models
from lmzoo.runs.directory import Run


def bits(lm: Loaded, tokens: list[int], first: int = 0) -> list[float]:
    """-log2 p of all tokens from the first one on, by one `predict` for each."""
    state, found = lm.model.initial_state(1), []
    with torch.no_grad():
        for token in tokens:
            found.append(-float(lm.model.predict(state)[0, token]) / math.log(2))
            _, state = lm.model(torch.tensor([[token]]), state)
    return found[first:]


def texts_of(lm: Loaded) -> list[str]:
    return [lm.vocabulary.decode(tokens) for tokens in ([3, 5, 4], [], [6], [3, 5, 4, 2, 2], [7] * 30)]


@pytest.mark.parametrize("name", ["lstm", "trigrams"])
def test_a_list_is_scored_as_each_by_itself(name: str, request: pytest.FixtureRequest):
    lm = request.getfixturevalue(name)
    texts = [*texts_of(lm), *(["nowhere the"] if name == "trigrams" else [])]
    together = lm.surprisal(texts)
    assert [words for words, _ in (zip(*found, strict=True) for found in together)] == [
        words for words, _ in (zip(*lm.surprisal(text), strict=True) for text in texts)
    ]
    for text, found in zip(texts, together, strict=True):
        alone = [value for _, value in lm.surprisal(text)]
        assert [value for _, value in found] == pytest.approx(alone, abs=1e-5)
        assert alone == pytest.approx(bits(lm, lm.vocabulary.encode([text]).tolist()), abs=1e-4)
    assert lm.surprisal([]) == []
    assert lm.surprisal(texts[:1]) == [lm.surprisal(texts[0])]


def calls(ask: Callable[[], object]) -> int:
    profile = cProfile.Profile()
    profile.runcall(ask)
    return sum(entry.callcount for entry in profile.getstats())


def test_a_sentence_costs_few_calls_and_one_of_many_fewer(trigrams: Loaded):
    text = "the cat sees the dog a dog 's bark the dog barks " * 2
    trigrams.surprisal(text)
    assert calls(lambda: trigrams.surprisal(text)) < 350
    few, many = (calls(lambda number=number: trigrams.surprisal([text] * number)) for number in (10, 110))
    assert (many - few) / 100 < 20


def test_context_is_text_before(lstm: Loaded):
    assert lstm.context == "stream"
    words = lstm.vocabulary.decode
    whole = bits(lstm, [3, 5, 0, 4, 6, 2, 0], first=4)
    after = lstm.surprisal(words([6, 2]), context=f"{words([3, 5])}\n{words([4])}")
    assert [value for _, value in after] == pytest.approx(whole, abs=1e-4)
    closed = lstm.surprisal([words([6, 2]), words([8])], context=f"{words([3, 5])}\n")
    assert [value for _, value in closed[0]] == pytest.approx(bits(lstm, [3, 5, 0, 6, 2, 0], 3), abs=1e-4)
    assert [value for _, value in closed[1]] == pytest.approx(bits(lstm, [3, 5, 0, 8, 0], 3), abs=1e-4)
    own = lstm.surprisal([words([6]), words([6])], context=[words([3]), ""])
    assert [value for _, value in own[0]] == pytest.approx(bits(lstm, [3, 6, 0], 1), abs=1e-4)
    assert own[1] == [(word, pytest.approx(value, abs=1e-5)) for word, value in lstm.surprisal(words([6]))]


def test_context_and_characters_have_a_space_between_them():
    vocabulary = Vocabulary(["<eos>", "a", "b", "<space>"], Form(unit="char"))
    model = models.build({"name": "lstm", "hidden": 4}, vocabulary_size=4)
    contexts = {"a": "a b", "a ": "a b", "b\n": "b\nb", "": "b"}
    read = Texts.read(Predictor(model, vocabulary, Run(Path("run")), "stream"), ["b"] * 4, [*contexts], None)
    for row, text in zip(read.rows, contexts.values(), strict=True):
        assert row.tolist() == vocabulary.encode(text.split("\n")).tolist()


def test_lines_with_labels_have_no_context_not_even_an_empty_one():
    model, vocabulary = models.build({"name": "lstm"}, vocabulary_size=1), Vocabulary(["<eos>"], conditions=["a"])
    lm = Predictor(model, vocabulary, Run(Path("run")), "sentence")
    for context in ("", [""], "a"):
        with pytest.raises(UserError, match="context: run reads lines with labels; leave it out"):
            Texts.read(lm, [""], context, None)


def test_plain_text_of_characters_is_tokenized():
    vocabulary = Vocabulary(["<eos>", "a", "b", "<space>", ",", "."], Form(unit="char"))
    model = models.build({"name": "lstm", "hidden": 4}, vocabulary_size=6)
    read = Texts.read(Predictor(model, vocabulary, Run(Path("run")), "stream"), ["a,b."], None, "words")
    assert read.tokens[0].tolist() == vocabulary.encode(["a , b ."]).tolist()


def test_sentences_before_do_not_affect_models_of_sentences(
    lstm: Loaded, trigrams: Loaded, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING)
    whole = trigrams.surprisal("the cat sees the dog")
    assert trigrams.surprisal("sees the dog", context="the cat") == whole[2:]
    assert not caplog.messages
    assert trigrams.surprisal("sees the dog", context="a dog\nthe cat") == whole[2:]
    told = "reads each sentence by itself, so its sentences before have no effect"
    assert [told in message for message in caplog.messages] == [True]
    alone = replace(lstm, context="sentence")
    words = lstm.vocabulary.decode
    found = alone.surprisal(words([6, 2]), context=f"{words([3, 5])}\n{words([4])}")
    assert [value for _, value in found] == pytest.approx(bits(lstm, [4, 6, 2, 0], 1), abs=1e-4)


def test_plain_text_units_and_unknown_words(trigrams: Loaded):
    plain = trigrams.surprisal("A dog's bark.", tokenize="ptb")
    assert plain == trigrams.surprisal("a dog 's bark")
    assert trigrams.surprisal(["bark!"], context="A dog's", tokenize="ptb")[0] == plain[3:]
    unknown = trigrams.surprisal("the zebra")
    assert [word for word, _ in unknown] == ["the", "zebra→<unk>", "<eos>"]
    assert -sum(bits for _, bits in unknown) * math.log(2) == pytest.approx(trigrams.score("the zebra"))


def test_mistakes(trigrams: Loaded):
    for options, problem in (
        ({"tokenize": "moses"}, "tokenize=moses: no such tokenizer; choose ptb or treebank or words"),
        ({"context": ["a", "b"]}, "context: has 2 texts for 1; give one, or one for each"),
        ({"context": "sentence"}, 'context="sentence": is here the text before each line'),
        ({"context": "stream"}, r'leave it out, or write context=\["stream"\] for the word'),
    ):
        with pytest.raises(UserError, match=problem):
            trigrams.surprisal("the dog", **options)
    with pytest.raises(UserError, match="is not one line"):
        trigrams.surprisal("the\ndog", tokenize="ptb")
    for wrong in (None, 3, b"the"):
        with pytest.raises(UserError, match="is neither a text nor a list of texts"):
            trigrams.surprisal(wrong)  # pyright: ignore[reportArgumentType, reportCallIssue]
    for wrong in (3, [3]):
        with pytest.raises(UserError, match='context: 3 is no text; write "" where there is none'):
            trigrams.surprisal("the dog", context=wrong)  # pyright: ignore[reportArgumentType, reportCallIssue]
    with pytest.raises(UserError, match="context, line 1: <eos> is added at the end of each line"):
        trigrams.surprisal("the dog", context="a <eos>")
