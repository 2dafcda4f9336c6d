"""Write n-gram models, word vectors, or the folder of a run for transformers: ``lmzoo export RUN FILE``."""

import argparse
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import torch

from lmzoo.cli.command import CommandParser, check_output, inform, require_kind, warn
from lmzoo.core.errors import UserError
from lmzoo.core.files import text_ending, write_output
from lmzoo.core.options import NonNegative
from lmzoo.corpus.user_files import read_vocabulary, words_file
from lmzoo.corpus.vocabulary import UNK, Vocabulary
from lmzoo.huggingface.folder import CODE_FILE, files
from lmzoo.models.combined.mixture import Mixture
from lmzoo.models.ngram.arpa import check_sums
from lmzoo.models.ngram.arpa_file import holds_arpa, read_arpa, write_arpa
from lmzoo.models.ngram.editing import mixed, pruned, renumbered
from lmzoo.models.ngram.ngram import BackoffModel
from lmzoo.models.ngram.table import NGramTable
from lmzoo.protocol.model import LanguageModel, evaluating
from lmzoo.runs.directory import Run
from lmzoo.runs.external import open_model, require_words
from lmzoo.runs.kinds import WORD_VECTORS
from lmzoo.words.vectors.formats import VECTORS, Format, encoded, read_vectors

SAMPLED, NOT_ONE = 50, 0.001
"""After how many words the predictions of a folder for transformers are summed; the difference from 1 that is noted."""

NEEDED = "an n-gram model, a mixture per token of such models, or a run of lmzoo vectors"


def backoff_table(run: Run, model: LanguageModel, vocabulary: Vocabulary) -> NGramTable:
    """The n-grams of a run's model, over its vocabulary; for a mixture, of the mixed distribution."""
    if isinstance(model, Mixture) and model.per == "token":
        return mixed([backoff_table(run, part, vocabulary) for part in model.components], model.weights)
    return require_kind(run, model, BackoffModel, NEEDED).corpus_table(vocabulary)


def words_and_table(source: Path) -> tuple[Sequence[str], NGramTable]:
    """The words of a run or an ARPA file, and its n-grams; `<unk>` is included if it has a probability."""
    if source.is_file():
        names, table = read_arpa(source)
        check_sums(str(source), names, table)
    else:
        run, model, vocabulary = open_model(source, "cpu")
        warn(run.unfinished())
        table = backoff_table(run, model, vocabulary)
        # The word beyond the vocabulary is <unk>. It is omitted if <unk> is an ordinary word of the text.
        names = [*vocabulary.words, UNK] if UNK not in vocabulary.index else vocabulary.words
    names = names[: table.vocabulary_size]
    last = len(names) - 1
    in_no_ngram = table.logprob[last] == -torch.inf and not (table.keys % table.vocabulary_size == last).any()
    if names[last] == UNK and in_no_ngram:
        names = names[:last]
    return names, table


def restricted(names: Sequence[str], table: NGramTable, source: str) -> tuple[Sequence[str], NGramTable]:
    """Retain n-grams whose words are all in a list, or sentence ends or `<unk>`; probabilities are unchanged."""
    wanted = {*read_vocabulary(str(words_file(source)), option="--words").words}
    stays = [number == 0 or name == UNK or name in wanted for number, name in enumerate(names)]
    numbers = torch.where(torch.tensor(stays), torch.tensor(stays).cumsum(0) - 1, -1)
    share = float(table.logprob[: len(names)][numbers < 0].double().exp().sum())
    absent = len(wanted.difference(names)) - (names[0] not in wanted)
    warn(
        f"{source}: {stays.count(False):,} of {len(names):,} words are removed, with {share:.4f} of the unigram "
        f"probability, which is not redistributed"
        + (f"; the model does not have {absent:,} of the list's words" * (absent > 0))
    )
    beyond = numbers.new_full((table.vocabulary_size - len(names),), -1)
    table = renumbered(table, torch.cat([numbers, beyond]), sum(stays))
    return [name for name, stay in zip(names, stays, strict=True) if stay], table


def export_arpa(options: argparse.Namespace) -> None:
    """Write the n-grams of a run or an ARPA file as an ARPA file, with the options' pruning and restriction."""
    names, table = words_and_table(options.run)
    sizes = [_sizes(names, table)]
    if options.prune is not None:
        table = pruned(table, options.prune)
        sizes.append(_sizes(names, table))
    if options.words is not None:
        names, table = restricted(names, table, options.words)
        sizes.append(_sizes(names, table))
    write_arpa(options.file, table, names)
    inform(f"n-grams by order: {', then '.join(sizes)}")


def _sizes(names: Sequence[str], table: NGramTable) -> str:
    return " ".join(
        f"{size:,}" for size in (len(names), *(end - begin for begin, end in pairwise(table.first_rows()[1:])))
    )


@torch.no_grad()
def warn_unnormalized(source: Path, model: LanguageModel, words: Sequence[str]) -> None:
    """Warn if the predictions after a sample of words do not sum to 1, as those of an ARPA file need not."""
    tokens = torch.linspace(0, len(words) - 1, min(len(words), SAMPLED)).long()
    with evaluating(model):
        state = model(tokens[:, None], model.initial_state(len(tokens)))[1]
        sums = model.predict(state).double().logsumexp(1).exp()
    worst = int((sums - 1).abs().argmax())
    if abs(sums[worst] - 1) > NOT_ONE:
        warn(
            f"{source}: the probabilities of all words after '{words[int(tokens[worst])]}' sum to "
            f"{float(sums[worst]):.4g}, not to 1; programs that normalize them give other figures than lmzoo"
        )


def export_folder(source: Path, folder: Path) -> None:
    """Write the model of a run as a folder for transformers.

    Raises: UserError if a causal model of transformers cannot have its form, or the folder has other files.
    """
    if folder.is_file() or not folder.parent.is_dir():
        raise UserError(f"{folder}: cannot be written ({'is not a folder' if folder.is_file() else 'no such folder'})")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / CODE_FILE).exists():
        raise UserError(f"{folder}: contains other files, and no exported model", "name a new folder")
    run, model, vocabulary = open_model(source, "cpu")
    if model.open_vocabulary:
        raise UserError(f"{source}: is a model of transformers already", "give a run")
    require_words(run, model, vocabulary, labels=False, reverse=False)
    config = run.config()
    warn_unnormalized(source, model, vocabulary.words)
    contents = files(model, vocabulary, config["model"], config["corpus"]["context"], config["plugins"])
    warn(run.unfinished())
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror})") from None
    for name, data in contents.items():
        check_output(folder / name)
        write_output(folder / name, data)


def main() -> None:
    """Run the command."""
    parser = CommandParser(
        "export",
        ". SRILM and KenLM read ARPA files; gensim and others those of word vectors. A folder is for transformers.",
        "examples: lmzoo export outputs/ptb/ngram kn.arpa.gz; lmzoo export kn.arpa.gz small.arpa --prune 1e-8; "
        "lmzoo export outputs/ptb/skipgram skipgram.txt --format glove; lmzoo export outputs/ptb/lstm lstm-hf --hf",
    )
    parser.add_run(
        "outputs/ptb/ngram",
        "a run of an n-gram model, a mixture of such models or lmzoo vectors, or any language model for --hf; or an "
        "ARPA file, or a file of word vectors",
    )
    about = "file to write, or folder for --hf; ARPA files that end with .gz are gzipped"
    parser.add_argument("file", type=Path, help=about)
    about = "arpa for n-grams; for word vectors word2vec's binary (default) or text format, or GloVe's text format"
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--format", choices=["arpa", *get_args(Format)], help=about)
    about = "write a folder for transformers' AutoModelForCausalLM and AutoTokenizer; its code needs lmzoo and"
    form.add_argument("--hf", dest="format", action="store_const", const="hf", help=f"{about} trust_remote_code")
    about = "leave out n-grams whose removal increases the model's own perplexity by a factor below 1 + PRUNE"
    parser.add_number("--prune", NonNegative, f"{about}, such as 1e-8 (Stolcke 1998)")
    about = "restrict n-grams to the vocabulary of a run, an ARPA file or a file with one word per line"
    parser.add_argument("--words", metavar="LIST", help=about)
    options = parser.parse_args()
    source: Path = options.run
    edits = [f"--{name}" for name in ("prune", "words") if getattr(options, name) is not None]
    wanted: Any = options.format or ("arpa" if text_ending(options.file) == ".arpa" else None)
    is_file, of_words = source.exists() and not source.is_dir(), False
    if wanted != "hf":
        check_output(options.file, inputs=[source, *([Path(options.words)] if options.words else [])])
        of_words = not holds_arpa(source) if is_file else (source / VECTORS).exists()
        of_words = of_words or (not is_file and Run(source).config().kind is WORD_VECTORS)
        formats: tuple[Any, ...] = get_args(Format) if of_words else ("arpa",)
        kind = "holds no word vectors" if not of_words else "is no ARPA file" if is_file else "holds word vectors"
        if wanted not in (None, *formats):
            asked = f"--format {wanted}" if options.format else f"{options.file} (--format {wanted} by its name)"
            raise UserError(f"{asked}: {source} {kind}", f"choose {' or '.join(formats)}")
    if edits and (of_words or wanted == "hf"):
        raise UserError(f"{edits[0]}: edits n-grams alone", "give an n-gram model, and no other --format")
    if wanted == "hf":
        export_folder(source, options.file)
    elif of_words:
        write_output(options.file, encoded(read_vectors(source), wanted or "word2vec"))
    else:
        export_arpa(options)
        if not is_file and Run(source).vocabulary().form.reverse:
            warn(f"{options.file}: is a backward model, as read by SRILM's ngram -reverse")
    inform(str(options.file))  # not among the results, as they may go to standard output
