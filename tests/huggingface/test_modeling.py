"""Exported models in transformers, minicons and lm-evaluation-harness, beside themselves in lmzoo."""

import json
import warnings
from pathlib import Path

import pytest
import torch

from lmzoo.core.configs import defaults
from lmzoo.corpus import Corpus
from lmzoo.huggingface.folder import files
from lmzoo.models.combined.mixture import Mixture
from lmzoo.protocol.lines import scored
from lmzoo.protocol.model import LanguageModel, evaluating, models

OPTIONS = {
    "lstm": {"name": "lstm", "embedding": 8, "hidden": 8},
    "ngram": {"name": "ngram", "order": 5, "discount_fallback": True},
    "hmm": {"name": "hmm", "states": 4, "iterations": 2},
}
pytestmark = pytest.mark.filterwarnings("ignore")  # of packages that are not ours


@pytest.fixture(scope="module")
def transformers():
    with warnings.catch_warnings(action="ignore"):
        return pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def zoo(corpus: Corpus) -> dict[str, LanguageModel]:
    torch.manual_seed(0)
    found = {}
    for name, options in OPTIONS.items():
        found[name] = models.build(options, vocabulary_size=len(corpus.vocabulary))
        found[name].estimate(corpus)
    return {name: model.eval() for name, model in found.items()}


def written(model: LanguageModel, corpus: Corpus, options: dict, folder: Path, context: str = "sentence") -> Path:
    folder.mkdir()
    for name, data in files(
        model, corpus.vocabulary, defaults("model", options["name"]) | options, context, []
    ).items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def folders(zoo, corpus: Corpus, transformers, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("hf")
    return {name: written(model, corpus, OPTIONS[name], root / name) for name, model in zoo.items()}


def loaded(folder: Path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    with warnings.catch_warnings(action="ignore"):
        model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
        return model, AutoTokenizer.from_pretrained(folder, trust_remote_code=True)


def sentences(corpus: Corpus) -> list[str]:
    words = corpus.vocabulary.words
    return [" ".join(words[1:8]), words[3], " ".join(words[9:5:-1])]


@torch.no_grad()
def logprobs(model, tokenizer, text: str) -> torch.Tensor:
    """log p of the tokens of a text but the first, as every program of transformers computes them."""
    tokens = tokenizer(text, return_tensors="pt")
    return model(**tokens).logits.double().log_softmax(-1)[0, :-1].gather(1, tokens.input_ids[0, 1:, None])[:, 0]


@pytest.mark.parametrize("name", OPTIONS)
def test_the_same_log_p_and_greedy_text(name: str, zoo, folders, corpus: Corpus):
    (model, tokenizer), own = loaded(folders[name]), zoo[name]
    texts = sentences(corpus)
    lines = list(scored(own, corpus.vocabulary, texts, "sentence"))
    for text, line in zip(texts, lines, strict=True):
        found = logprobs(model, tokenizer, f"<eos> {text} <eos>")
        torch.testing.assert_close(found, line.logprobs.double(), atol=1e-5, rtol=0)
        # without the mark of the beginning, the first word has no prediction, and the others are the same
        torch.testing.assert_close(logprobs(model, tokenizer, text), line.logprobs[1:-1].double(), atol=1e-5, rtol=0)
    prompts = tokenizer(texts, return_tensors="pt", padding=True)
    drawn = model.generate(**prompts, max_new_tokens=5, do_sample=False)
    for text, row in zip(texts, drawn[:, prompts.input_ids.shape[1] :], strict=True):
        tokens, said = corpus.vocabulary.encode([text])[None, :-1], []
        with evaluating(own):
            while len(said) < 5 and 0 not in said:
                said.append(int(own.predict(own(tokens, own.initial_state(1))[1]).argmax()))
                tokens = torch.cat([tokens, torch.tensor([said[-1:]])], 1)
        assert row.tolist()[: len(said)] == said


def test_a_padded_batch_is_its_rows(zoo, folders, corpus: Corpus):
    model, tokenizer = loaded(folders["lstm"])
    texts = sentences(corpus)
    alone = [float(logprobs(model, tokenizer, f"<eos> {text} <eos>").sum()) for text in texts]
    for side in ("left", "right"):
        tokens = tokenizer(
            [f"<eos> {text} <eos>" for text in texts], return_tensors="pt", padding=True, padding_side=side
        )
        labels = tokens.input_ids.where(tokens.attention_mask.bool(), -100)
        with torch.no_grad():
            logits = model(**tokens).logits.double()
            loss = model(**tokens, labels=labels).loss
        p = logits[:, :-1].gather(2, tokens.input_ids[:, 1:, None])[..., 0]
        inside = (labels[:, 1:] != -100) & (labels[:, :-1] != -100)
        assert (p * inside).sum(1).tolist() == pytest.approx(alone, abs=1e-5)
    assert float(loss) == pytest.approx(-sum(alone) / int(inside.sum()), abs=1e-5)  # of padding on the right


@pytest.mark.parametrize("context", ["sentence", "stream"])
def test_a_second_sentence_follows_the_context(context: str, zoo, corpus: Corpus, transformers, tmp_path: Path):
    model, tokenizer = loaded(written(zoo["lstm"], corpus, OPTIONS["lstm"], tmp_path / "hf", context))
    texts = sentences(corpus)
    found = logprobs(model, tokenizer, f"<eos> {texts[0]} <eos> {texts[2]} <eos>")
    lines = scored(zoo["lstm"], corpus.vocabulary, [texts[0], texts[2]], context)
    torch.testing.assert_close(found, torch.cat([line.logprobs for line in lines]).double(), atol=1e-5, rtol=0)


def test_a_folder_is_saved_again(zoo, folders, corpus: Corpus, tmp_path: Path):
    model, tokenizer = loaded(folders["lstm"])
    model.save_pretrained(tmp_path)
    tokens = tokenizer(sentences(corpus)[0], return_tensors="pt")["input_ids"]
    assert torch.equal(type(model).from_pretrained(tmp_path)(tokens).logits, model(tokens).logits)


def test_a_mixture_is_exported_with_its_parts(zoo, corpus: Corpus, transformers, tmp_path: Path):
    mixture = Mixture(len(corpus.vocabulary))
    options = [defaults("model", name) | OPTIONS[name] for name in ("lstm", "ngram")]
    mixture.set_components(options, [zoo["lstm"], zoo["ngram"]])
    mixture.weights = torch.tensor([0.3, 0.7])
    model, tokenizer = loaded(written(mixture, corpus, {"name": "mixture"}, tmp_path / "hf"))
    text = sentences(corpus)[0]
    (line,) = scored(mixture, corpus.vocabulary, [text], "sentence")
    found = logprobs(model, tokenizer, f"<eos> {text} <eos>")
    torch.testing.assert_close(found, line.logprobs.double(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", OPTIONS)
def test_minicons_and_the_evaluation_harness(name: str, zoo, folders, corpus: Corpus, tmp_path: Path):
    minicons = pytest.importorskip("minicons.scorer")
    harness = pytest.importorskip("lm_eval.evaluator")
    texts = sentences(corpus)
    lines = list(scored(zoo[name], corpus.vocabulary, texts, "sentence"))
    model, tokenizer = loaded(folders[name])
    scorer = minicons.IncrementalLMScorer(model, "cpu", tokenizer=tokenizer)
    for rows, line in zip(scorer.token_score(texts, bos_token=True, bow_correction=False), lines, strict=True):
        assert [p for word, p in rows if word != "<eos>"] == pytest.approx(line.logprobs[:-1].tolist(), abs=1e-5)
    words = corpus.vocabulary.words
    data = [{"beginning": words[1 + i], "choices": [words[5], words[6]], "right": 0} for i in range(3)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data))
    task = {
        "task": "local", "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(tmp_path / "data.jsonl")}},
        "test_split": "test", "output_type": "multiple_choice", "doc_to_text": "{{beginning}}",
        "doc_to_choice": "{{choices}}", "doc_to_target": "{{right}}",
    }  # fmt: skip
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.models.huggingface import HFLM

    lm = HFLM(pretrained=str(folders[name]), trust_remote_code=True, device="cpu")
    found = harness.evaluate(lm, {"local": ConfigurableTask(config=task)}, log_samples=True, bootstrap_iters=0)
    for row, sample in zip(data, sorted(found["samples"]["local"], key=lambda s: s["doc_id"]), strict=True):
        own = [line.logprobs[1] for line in scored(
            zoo[name], corpus.vocabulary, [f"{row['beginning']} {word}" for word in row["choices"]], "sentence"
        )]  # fmt: skip
        assert [float(response[0][0]) for response in sample["resps"]] == pytest.approx(
            [float(p) for p in own], abs=1e-4
        )
