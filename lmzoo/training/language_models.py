"""Training of language models."""

import contextlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lmzoo.core import ranks
from lmzoo.core.errors import UserError, printable, shortened
from lmzoo.core.options import call
from lmzoo.corpus import Corpus, load_corpus
from lmzoo.corpus.conditions import label_counts
from lmzoo.corpus.vocabulary import EOS_ID, UNK
from lmzoo.protocol.abilities import HasLogZ
from lmzoo.protocol.model import LanguageModel, models, num_parameters, takes_steps
from lmzoo.protocol.perplexity import Score, logprob_error, perplexity, score, text_logprobs
from lmzoo.protocol.sampling import sample
from lmzoo.reports.board import Board
from lmzoo.runs.command_options import TrainOptions
from lmzoo.runs.device import resolve_device
from lmzoo.runs.directory import Run
from lmzoo.runs.loading import build_model
from lmzoo.runs.results import finite
from lmzoo.runs.trainer_options import TrainerOptions, trainers
from lmzoo.training.descent import Descent
from lmzoo.training.optimization import optimizers, schedules
from lmzoo.training.progress import Progress
from lmzoo.training.session import Learner, log
from lmzoo.training.trainer import Trainer, resolve_precision

SAMPLE_TOKENS, SAMPLE_SIGNS = 60, 100
"""Tokens of the sample at each validation, and its characters in the log."""

STEPS_PER_POINT = 10
"""The interval of training scalars in TensorBoard, in steps."""


class Learning(Learner):
    """A language model and its trainer."""

    trainer: Trainer

    def __init__(self, options: TrainOptions, run: Run):
        self.options, self.run = options, run
        self.trainer_options = call(TrainerOptions, options.trainer, "trainer.")
        models.check(options.model)
        begun, others = self.trainer_options.from_, models.sources(options.model)
        if begun is not None and (starts := others.keys() - {"model.teacher"}):  # a teacher goes with any start
            raise UserError(
                f"trainer.from={begun}: is where the model starts, and so is {min(starts)}", "leave one out"
            )
        optimizers.check(options.optimizer)
        schedules.check(options.schedule)
        corpus, words = dict(options.corpus), options.corpus.get("vocabulary")
        if isinstance(words, str) and not Path(words).exists() and run.config_file.exists():
            corpus["vocabulary"] = str(run.path)  # the run has the same words
        self.corpus = load_corpus(corpus).truncated(self.trainer_options.first_tokens)
        if "valid" not in self.corpus.splits:
            raise UserError(f"corpus {self.corpus.name} needs corpus.valid", "name a file, or 5% to take it from train")
        self.sources = others | trainers.sources({"name": "default", **options.trainer})

    def prepare(self, board: Board) -> None:
        options, self.board = self.options, board
        device = resolve_device(options.device)
        if options.deterministic != torch.are_deterministic_algorithms_enabled():  # importing a compiler, 1.3 s
            torch.use_deterministic_algorithms(options.deterministic)
        torch.manual_seed(options.seed)
        model = build_model(options.model, self.corpus.vocabulary).to(device)
        chosen = resolve_precision(self.trainer_options, model, self.run)
        self.resolved = {"trainer": options.trainer | {"precision": chosen.precision}}
        descent = None
        if learns := any(parameter.requires_grad for parameter in model.parameters()):
            optimizer, schedule = options.optimizer, options.schedule
            descent = Descent(model, self.corpus, chosen, optimizer=optimizer, schedule=schedule, seed=options.seed)
        self.trainer = Trainer(model, self.corpus, self.run, chosen, descent, self.show)
        self.trainer.new_model = lambda: build_model(options.model, self.corpus.vocabulary)
        if takes_steps(options.model) != learns:
            having = "parameters" if learns else "no parameters"
            problem = f"model={options.model['name']}: has {having}, and takes_steps is {not learns}"
            raise UserError(problem, f"set its takes_steps to {learns}")

    def show(self, progress: Progress, metrics: dict[str, float]) -> None:
        """Show a step or a validation in TensorBoard, and a validation also in the log, with a sample of the model."""
        if not ranks.is_main():
            return
        if checked := "perplexity/valid" in metrics:
            log.info("%s tokens, %.0f s: valid perplexity %.2f",
                     f"{progress.tokens:,}", progress.seconds, metrics["perplexity/valid"])  # fmt: skip
            with contextlib.suppress(UserError):  # some n-gram models do not support sampling
                corpus = self.corpus
                drawn = sample(self.trainer.model, SAMPLE_TOKENS, self.options.seed, context=corpus.context)
                text = corpus.vocabulary.decode(drawn.tokens[0].tolist())
                self.board.text("sample", text, progress.tokens)
                log.info("sample: %s", printable(shortened(" | ".join(text.splitlines()), SAMPLE_SIGNS)))
        if checked or progress.step % STEPS_PER_POINT == 0:
            self.board.scalars(metrics, progress.tokens)

    def restore(self) -> None:
        self.trainer.restore()
        self.resumed, self.progress = self.trainer.resumed, self.trainer.progress

    def describe(self) -> Iterator[str]:
        device = f"{self.trainer.model.device}"
        if self.trainer.descent is not None:
            device += f" in {self.trainer.options.precision}"
        corpus, name = self.corpus, self.options.model["name"]
        yield f"{name} on {corpus.name}, context {corpus.context}, {device}: {self.run.path}"
        yield describe_corpus(corpus)

    def fit(self) -> None:
        self.trainer.fit()

    def measure(self) -> dict[str, Any]:
        trainer, model = self.trainer, self.trainer.model
        if trainer.descent is not None and (best := self.run.restore("best.pt", "model")) is not None:
            self.run.load_weights(model, best, "best.pt")
        corpus, scores = self.corpus, {}
        for split in ("valid", "test"):
            if split in corpus.splits:
                logprobs = text_logprobs(model, corpus.splits[split], corpus.context, corpus.conditions.get(split))
                if problem := logprob_error(logprobs):
                    raise UserError(problem, "choose other options and another run_dir")
                scores[split] = Score(logprobs)
            if split == "valid" and trainer.descent is None:  # else it has been shown in training
                self.show(trainer.progress, {"perplexity/valid": scores[split].perplexity})
        results = results_of(scores, model, corpus, trainer.progress)
        if trainer.descent is not None:
            results["precision"] = trainer.options.precision
        return results

    def images(self) -> Mapping[str, Tensor]:
        return self.trainer.model.images(self.corpus)


def describe_corpus(corpus: Corpus) -> str:
    """The size of a text, and its share of `<unk>`: a larger share lowers perplexity."""
    size = f"{len(corpus.splits['train']):,} tokens of {len(corpus.vocabulary):,} words"
    unknown = corpus.vocabulary.index.get(UNK)
    if labels := corpus.labels("train"):
        size += f"; {label_counts(Counter(labels))}"
    size += "".join(f"; {split} is {note}" for split, note in corpus.notes.items() if split in corpus.splits)
    if unknown is None:
        return size
    shares = [f"{100 * int((tokens == unknown).sum()) / len(tokens):.1f}% of {name}"
              for name, tokens in corpus.splits.items()]  # fmt: skip
    return f"{size}; {UNK} is {', '.join(shares)}"


def results_of(scores: Mapping[str, Score], model: LanguageModel, corpus: Corpus, progress: Progress) -> dict[str, Any]:
    """The contents of ``results.json``, from the scores of valid and test."""
    figures: dict[str, Any] = {
        "corpus": corpus.name,
        "context": corpus.context,
        "parameters": num_parameters(model),
        "perplexity": {split: finite(each.perplexity) for split, each in scores.items()},
        "tokens": {split: each.tokens for split, each in scores.items()},
        "train_perplexity": progress.checks[-1]["train"] if progress.checks else None,
        "best_epoch": progress.best_epoch,
        "checks": progress.checks,
        "seconds": round(progress.seconds, 3),
        "tokens_per_second": round(progress.tokens / max(progress.step_seconds, 1e-9), 1),
        "device": str(model.device),
    }
    if impossible := {split: each.impossible for split, each in scores.items() if each.impossible}:
        figures["impossible_tokens"] = impossible
    lacking = {split: int(model.unlisted()[corpus.splits[split].cpu()].sum()) for split in scores}
    if any(lacking.values()):
        figures["unlisted_tokens"] = lacking
    if corpus.vocabulary.form.unit == "char":
        bits = {split: -each.logprob / each.tokens / math.log(2) for split, each in scores.items()}
        figures["bits_per_character"] = {split: finite(value) for split, value in bits.items()}
    if not corpus.vocabulary.form.of_words:
        words = {split: int(corpus.vocabulary.word_begins(corpus.splits[split]).sum()) for split in scores}
        per_word = {split: perplexity(each.logprob, words[split]) for split, each in scores.items()}
        figures |= {"words": words, "perplexity_per_word": {split: finite(each) for split, each in per_word.items()}}
    if corpus.conditions:
        without = {split: score(model, corpus.splits[split], corpus.context).perplexity for split in scores}
        figures["perplexity_without_condition"] = {split: finite(value) for split, value in without.items()}
    if isinstance(model, HasLogZ):
        figures |= {"log_z": model.log_z._asdict(), "perplexity_error": {}}
        for split, each in scores.items():  # the standard error of perplexity due to log Z
            sentences = int((corpus.splits[split] == EOS_ID).sum())
            error = each.perplexity * model.log_z.error * sentences / each.tokens
            figures["perplexity_error"][split] = finite(error)
    if corpus.true_perplexity:
        figures["true_perplexity"] = corpus.true_perplexity
    return figures
