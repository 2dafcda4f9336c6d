"""Transformers as models of whole words: a chain of pieces whose words can all be listed, and a small GPT-2."""

import copy
import importlib.util
import itertools
import json
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from command_line import MODELS, QUICK, command

import lmzoo
from lmzoo.api import Loaded
from lmzoo.commands import compare, pairs, reading, score
from lmzoo.core.errors import UserError
from lmzoo.page import data
from lmzoo.page.zoo import Zoo
from lmzoo.protocol.lines import scored
from lmzoo.protocol.perplexity import text_logprobs

with warnings.catch_warnings(action="ignore"):
    transformers = pytest.importorskip("transformers")

import gpt2

from lmzoo.huggingface.causal import CausalTransformer, Pieces

pytestmark = pytest.mark.filterwarnings("ignore")  # of packages that are not ours
END = "<|endoftext|>"
PIECES = [END, "a", "b", "Ġa", "Ġb", "ba"]


class Chain(torch.nn.Module):
    """A Markov chain of pieces, with the calls of a causal model of transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace()
        logits = torch.randn(len(PIECES), len(PIECES), generator=torch.Generator().manual_seed(3))
        logits[:, 5] -= 20  # a second way to cut "ba", which the tokenizer does not choose
        self.table = torch.nn.Parameter(logits.log_softmax(1))

    def get_output_embeddings(self) -> SimpleNamespace:
        return SimpleNamespace(out_features=len(PIECES))

    def forward(self, input_ids: torch.Tensor, **_: object) -> SimpleNamespace:
        return SimpleNamespace(logits=self.table[input_ids])


@pytest.fixture(scope="module")
def chain() -> CausalTransformer:
    import tokenizers as t

    made = t.Tokenizer(t.models.BPE({**{p: i for i, p in enumerate(PIECES)}, "Ġ": 6}, [("Ġ", "a"), ("Ġ", "b")]))
    made.pre_tokenizer = t.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = t.decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, bos_token=END)
    return CausalTransformer(Chain(), tokenizer, "chain")


def spellings(longest: int) -> Iterator[str]:
    """Every word of so many letters at most."""
    for length in range(1, longest + 1):
        yield from map("".join, itertools.product("ab", repeat=length))


@pytest.mark.parametrize("before", ["", "a", "ab b"])
def test_the_probabilities_of_all_words_sum_to_one(chain: CausalTransformer, before: str):
    longest, p = 8, chain.network.table.exp().tolist()
    words, number = [*spellings(longest)], dict(zip(PIECES, itertools.count(), strict=False))
    tokens = chain.vocabulary.encode([f"{before} {word}" for word in words] + [before])
    logprobs = text_logprobs(chain, tokens, "sentence").exp()
    ends = (tokens == 0).nonzero()[:, 0]
    of_words, of_end = float(logprobs[ends[:-1] - 1].sum()), float(logprobs[ends[-1]])
    # words of more letters: all ways to go on after so many
    last = {"": END, "a": "a", "ab b": "Ġb"}[before]
    begin = [number[piece] for piece in (("Ġa", "Ġb") if before else ("a", "b", "ba"))]
    over = sum(p[number[last]][piece] for piece in [*begin, 0])
    share = {piece: p[number[last]][piece] / over for piece in begin}
    goes_on = [number[piece] for piece in ("a", "b", "ba")]
    for _ in range(longest):
        share = {to: sum(share[piece] * p[piece][to] for piece in share) for to in goes_on}
    assert of_words + of_end + sum(share.values()) == pytest.approx(1, abs=1e-6)


def test_the_probability_of_a_line_is_that_of_its_pieces(chain: CausalTransformer):
    pieces, p = [0, 1, 2, 3, 4, 2, 0], chain.network.table
    own = sum(float(p[a, b]) for a, b in itertools.pairwise(pieces)) - math.log(float(p[0, [0, 1, 2, 5]].exp().sum()))
    (line,) = scored(chain, chain.vocabulary, ["ab a bb"], "sentence")
    assert line.words == ["ab", "a", "bb", "<eos>"]
    assert line.logprob == pytest.approx(own, abs=1e-5)
    over = float(p[2, [0, 3, 4]].exp().sum())  # after "ab"
    first = p[0, 1] + p[1, 2] + math.log(over) - math.log(float(p[0, [0, 1, 2, 5]].exp().sum()))
    assert float(line.logprobs[0]) == pytest.approx(float(first), abs=1e-5)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return gpt2.saved(tmp_path_factory.mktemp("gpt2") / "small")


@pytest.fixture(scope="module")
def lm(small: Path) -> Loaded:
    return lmzoo.load(small)


@torch.no_grad()
def log_first() -> float:
    """log p that a text does not begin with white space."""
    network, tokenizer = gpt2.trained()
    p = network(torch.tensor([[tokenizer.bos_token_id]])).logits[0, 0].softmax(0)
    return math.log(1 - sum(float(p[piece]) for piece in range(len(p)) if tokenizer.decode([piece])[:1].isspace()))


@torch.no_grad()
def own_logprob(text: str) -> float:
    """log p of a line of up to 32 pieces and its end, from the pieces."""
    network, tokenizer = gpt2.trained()
    pieces = torch.tensor(tokenizer(f"{END}{text}{END}").input_ids)
    logprobs = network(pieces[None, :-1]).logits[0].log_softmax(1)
    return float(logprobs.gather(1, pieces[1:, None]).sum()) - log_first()


def test_a_line_of_gpt2_is_its_pieces(lm: Loaded):
    for text in gpt2.LINES[:5]:
        assert lm.score(text) == pytest.approx(own_logprob(text), abs=1e-4)
        words, bits = zip(*lm.surprisal(text), strict=True)
        assert words == (*text.split(), "<eos>")
        assert sum(bits) == pytest.approx(-own_logprob(text) / math.log(2), abs=1e-3)


def test_batches_windows_and_parts_do_not_matter(lm: Loaded):
    texts = [*gpt2.LINES, "", " ".join(gpt2.LINES[:4] * 3)]  # the last one has more pieces than the context
    alone = [lm.score(text) for text in texts]
    assert lm.score(texts) == pytest.approx(alone, abs=1e-4)
    tokens = lm.vocabulary.encode(texts)
    whole = text_logprobs(lm.model, tokens, "stream")
    state, parts = lm.model.initial_state(1), []
    for part in tokens.split(7):
        logprobs, state = lm.model(part[None], state)
        parts.append(logprobs[0])
    torch.testing.assert_close(torch.cat(parts), whole, atol=1e-5, rtol=0)


def test_a_long_line_has_half_a_context_before_each_piece(lm: Loaded):
    network, tokenizer = gpt2.trained()
    text = " ".join(gpt2.LINES[:5] * 3)
    pieces = torch.tensor(tokenizer(f"{END}{text}{END}").input_ids)
    assert len(pieces) > 64
    logprobs = []
    for place in range(1, len(pieces)):  # that of each piece by itself
        start = max(0, (place - 1) // 16 - 1) * 16
        with torch.no_grad():
            logprobs.append(float(network(pieces[None, start:place]).logits[0, -1].log_softmax(0)[pieces[place]]))
    line = lm.line(text)
    assert line.logprob == pytest.approx(sum(logprobs) - log_first(), abs=1e-3)


def test_names_of_marks_in_a_text_are_text(lm: Loaded):
    assert lm.model.pieces.end not in lm.model.pieces.of(END, True)
    assert lm.score(END) > -math.inf


@pytest.fixture
def beside(folder: Path, small: Path) -> Path:
    """A run of words in small letters, and the table and pairs of commands."""
    lines = [line.lower() for line in gpt2.LINES]
    Path("train.txt").write_text("\n".join([*lines, *gpt2.LINES[:4]]) + "\n")
    options = ["corpus=text", *(f"corpus.{split}=train.txt" for split in ("train", "valid", "test"))]
    assert (
        command(*options, "corpus.unknown=true", "corpus.context=sentence", *MODELS["rnn"], *QUICK, "run_dir=rnn").code
        == 0
    )
    return small


def test_commands_take_a_folder(beside: Path, lm: Loaded):
    name, text = str(beside), gpt2.LINES[0]
    Path("text").write_text(f"{text}\n")
    rows = command(name, "text", main=score.main).out.splitlines()[1:-1]
    assert [row.split("\t") for row in rows] == [
        [word, f"{p:.4f}", "true"]
        for word, p in zip([*text.split(), "<eos>"], lm.line(text).logprobs.tolist(), strict=True)
    ]
    result = command("rnn", name, "text", "--table", "table.csv", main=score.main)
    assert result.code == 0
    assert result.err.count("has no word vocabulary, so entropy and rank are missing") == 1
    table = [line.split(",") for line in Path("table.csv").read_text().splitlines() if line.startswith("small")]
    bits = [bits for _, bits in lm.surprisal(text)]
    assert [float(row[5]) for row in table] == pytest.approx(bits, abs=1e-4)
    assert {*(tuple(row[6:]) for row in table)} == {("NA", "NA", "NA")}
    if importlib.util.find_spec("pandas"):
        frame = lm.frame(text)
        assert (frame.surprisal.tolist(), int(frame["rank"].isna().sum())) == (pytest.approx(bits, abs=1e-4), len(bits))
    Path("pairs").write_text(json.dumps({"sentence_good": text, "sentence_bad": "The cat mat the on sat."}))
    found = json.loads(command(name, "pairs", "--json", main=pairs.main).out)["pairs"][0]
    assert found["logprob_good"] == pytest.approx(float(lm.line(text).logprobs[:-1].sum()), abs=1e-6)
    told = command("rnn", name, "--sentence", text, "--tokenize", "ptb", main=compare.main)
    assert "the runs tokenize the sentence differently" in told.err
    table = [line.split() for line in told.out.splitlines()[4:]]
    assert [row[0] for row in table] == [*text.split(), "all"]
    assert [float(row[2]) for row in table[:-1]] == pytest.approx(
        [bits for _, bits in lm.surprisal(text)[:-1]], abs=0.01
    )
    same = command("rnn", name, "--sentence", "the cat", main=compare.main).out
    assert [line.split()[0] for line in same.splitlines()[4:]] == ["the", "cat", "<eos>", "all"]
    zoo = Zoo(["rnn", name])
    (words,) = data.surprisal(zoo.models["small"], text)
    assert [token.word for token in words] == [*text.split(), "<eos>"]
    assert [*zoo.predicting] == ["rnn"]


def test_reading_gives_a_story_its_whole_context(beside: Path, lm: Loaded):
    stories = [" ".join(gpt2.LINES[:3]), " ".join(gpt2.LINES[3:])]
    rows = ["word\tmeanItemRT\titem\tzone"]
    for item in range(40):
        words = stories[item % 2].split()
        rows += [f"{word}\t{300 + 7 * (item * place % 11)}\t{item}\t{place}" for place, word in enumerate(words)]
    Path("times.tsv").write_text("\n".join(rows) + "\n")
    told = command("rnn", str(beside), "times.tsv", "--edges", "--words", "words.tsv", main=reading.main)
    assert told.code == 0, told.err
    _, *lines = [line.split("\t") for line in Path("words.tsv").read_text().splitlines()]
    bits = [float(line[-1]) for line in lines[: len(stories[0].split())]]
    assert bits == pytest.approx([b for _, b in lm.surprisal(stories[0])[:-1]], abs=1e-3)


def test_lines_are_whole_where_the_tokenizer_was_saved_with_truncation_and_padding():
    tokenizer = copy.deepcopy(gpt2.trained()[1])
    line = gpt2.LINES[0]
    whole = tokenizer(line).input_ids
    tokenizer.backend_tokenizer.enable_truncation(3)
    tokenizer.backend_tokenizer.enable_padding(length=90)
    Pieces(tokenizer, len(tokenizer), "gpt2").check(line.split(), whole)


def test_what_is_no_causal_transformer_is_refused(folder: Path, small: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # or a download is tried for a minute
    network, tokenizer = gpt2.trained()
    with pytest.raises(UserError, match="has no train, valid or test text"):
        lmzoo.load(small).perplexity("test")
    with pytest.raises(UserError, match="has no word vocabulary"):
        lmzoo.load(small).next_words("The")
    for name in ("code", "pickled"):
        gpt2.saved(Path(name))
    Path("pickled/model.safetensors").unlink()
    torch.save(network.state_dict(), "pickled/pytorch_model.bin")
    config = json.loads(Path("code/config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}}
    Path("code/config.json").write_text(json.dumps(config))
    Path("code/own.py").write_text("open('ran', 'w')")
    for name, problem in {
        "code": "comes with code of its own, which is not run; name it hf-code:code",
        "pickled": "cannot be loaded by transformers",
        "hf:absent-from-here": "absent-from-here: cannot be loaded by transformers",
    }.items():
        with pytest.raises(UserError, match=problem):
            lmzoo.load(name)
    assert not Path("ran").exists()
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        initializer_range=1.0,
    )
    with pytest.raises(UserError, match="is not a causal model"):
        CausalTransformer(transformers.BertForMaskedLM(config), tokenizer, "bert")


def test_a_frame_has_no_entropy(small: Path, caplog: pytest.LogCaptureFixture):
    pytest.importorskip("pandas", reason="a frame is of pandas")
    lm = lmzoo.load(small)
    assert repr(lm) == f"<huggingface in {small}>"
    for text in gpt2.LINES[:2]:  # the second has words that are new
        frame = lm.frame(text)
        assert list(frame["surprisal"]) == pytest.approx([bits for _, bits in lm.surprisal(text)], abs=1e-4)
        assert frame[["entropy", "rank", "log_frequency"]].isna().all().all()
        assert [text[start:end] for start, end in zip(frame.start, frame.end, strict=True)] == [*text.split(), ""]
    assert any(message.startswith("entropy and rank are missing:") for message in caplog.messages)
