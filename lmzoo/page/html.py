"""HTML of the page, with the classes of ``style.css``.

Every text of a run or a user goes through `escape`.
"""

import base64
import html
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from lmzoo.api.questions import Filled
from lmzoo.core.errors import printable
from lmzoo.corpus import EOS
from lmzoo.corpus.form import character
from lmzoo.corpus.vocabulary import UNK
from lmzoo.page import data
from lmzoo.page.zoo import Zoo
from lmzoo.protocol.perplexity import perplexity
from lmzoo.reports.table import cell, csv_bytes
from lmzoo.runs.configuration import differing_options, short_names

HOT = 16.0
"""Bits of the strongest colour, which is dark on a light ground and light on a dark one."""

GOLDEN = 137.5
"""Degrees between the hues of two states whose numbers follow each other, so that few are alike."""


def escape(text: object) -> str:
    """A text as HTML, in which no sign begins a tag, an entity or one of the templates that Gradio fills in."""
    escaped = html.escape(printable(str(text)))
    return escaped.translate({ord(sign): f"&#{ord(sign)};" for sign in "{}$`\\"})


def note(text: str) -> str:
    """What is missing, or goes on."""
    return f'<p class="note">{escape(text)}</p>'


def cards(drawn: Iterable[str], beside: bool = False) -> str:
    """Cards, one below the other or, where there is room, beside each other."""
    return f'<div class="cards{" side" if beside else ""}">{"".join(drawn)}</div>'


def card(name: str, about: str, content: str) -> str:
    """A card with the name of a run, a note about it, and HTML."""
    return f'<section class="card"><header><h2>{escape(name)}</h2><span>{about}</span></header>{content}</section>'


def header(zoo: Zoo) -> str:
    """What the page is about, and the runs."""
    runs, contexts = [], set()
    options = [lm.run.config().result_options for lm in zoo.models.values()]
    differing = differing_options(options, "model.name", short_names({key: 0 for own in options for key in own}))
    for (name, lm), own, apart in zip(zoo.models.items(), options, differing, strict=True):
        measured = (lm.results or {}).get("perplexity", {})
        split = next((split for split in ("test", "valid") if split in measured), None)
        figure = ""
        if split and measured[split] is not None:
            figure = f", perplexity of {split} {measured[split]:,.1f} (context {lm.context})"
            contexts.add(lm.context)
        runs.append((name, f"model={own['model.name']} {apart}".strip() + figure))
    for name, vectors in zoo.vectors.items():
        dimensions = vectors.words.matrix.shape[1]
        runs.append((name, f"method={vectors.run.config()['method']['name']}, {dimensions} dimensions"))
    chips = "".join(f"<li><b>{escape(name)}</b> {escape(about)}</li>" for name, about in runs)
    mixed = "perplexities with context stream and context sentence cannot be compared"
    notes = "".join(map(note, [*zoo.notes, mixed] if len(contexts) > 1 else zoo.notes))
    words = f"{len(zoo.vocabulary):,} words"
    return f'<h1>lmzoo demo</h1><ul class="runs" aria-label="runs of {words}">{chips}</ul>{notes}'


def scale() -> str:
    """What the colours of words mean."""
    ticks = "".join(f"<span>{bits}</span>" for bits in (0, 4, 8, 12, 16))
    return (
        '<div class="scale" aria-hidden="true"><span>bits: 0 is certain, 1 a coin, 10 is 1 in 1,024</span>'
        f'<div><div class="ramp"></div><div class="ticks">{ticks}</div></div></div>'
    )


def surprisal(name: str, lines: Sequence[Sequence[data.Token]]) -> str:
    """A text in the colours of its surprisal."""
    tokens = [token for line in lines for token in line]
    unknown = sum(not token.known for token in tokens)
    bits = sum(token.bits for token in tokens)
    mean = perplexity(-bits * math.log(2), len(tokens))
    about = f"<b>{bits / len(tokens):.2f}</b> bits a word, perplexity {number(mean)}"
    about += f", {unknown} unknown" if unknown else ""
    drawn = []
    for line in lines:
        total = sum(token.bits for token in line)
        own = f"<small>{number(total)} bits, {total / len(line):.2f} a word</small>" if len(lines) > 1 else ""
        drawn.append(f'<div class="line"><div class="text" dir="auto">{words(line)}</div>{own}</div>')
    return card(name, about, f'<div class="lines">{"".join(drawn)}</div>')


def downloads(scored: Mapping[str, Sequence[Sequence[data.Token]]]) -> str:
    """What saves the words of each run as CSV, in columns as of ``lmzoo score --table``, and the cards as a picture."""
    rows = [
        [name, sentence, position, token.word, token.known, token.bits]
        for name, lines in scored.items()
        for sentence, line in enumerate(lines, 1)
        for position, token in enumerate(line, 1)
    ]
    header = ("run", "sentence", "position", "word", "known", "surprisal")
    encoded = base64.b64encode(csv_bytes([header, *(map(cell, row) for row in rows)])).decode()
    return (
        f'<p class="save"><a download="surprisal.csv" href="data:text/csv;base64,{encoded}">save as CSV</a>'
        '<button type="button" data-picture="surprisal.png">save as picture</button></p>'
    )


def sampled(name: str, texts: Sequence[data.Sampled]) -> str:
    """Texts that a model has drawn, in the same colours."""
    drawn = []
    for place, text in enumerate(texts, 1):
        bits = sum(token.bits for token in text.tokens) / len(text.tokens)
        label = f"{escape(text.label)}, " if text.label is not None else ""
        about = f"{label}{bits:.2f} bits a word"
        drawn.append(
            f'<li><div class="text" dir="auto">{words([*text.prompt, *text.tokens])}</div>'
            f"<small>{place}: {about}</small></li>"
        )
    return card(name, "", f'<ol class="samples">{"".join(drawn)}</ol>')


def words(tokens: Iterable[data.Token]) -> str:
    """Words with their colours, with a description that shows on hover; a new line after `<eos>`."""
    return "".join(word(token) + ("<br>" if token.word == EOS else "") for token in tokens).removesuffix("<br>")


def word(token: data.Token) -> str:
    """One of them."""
    classes = ["word", *(["unknown"] if not token.known else []), *(["end"] if token.word == EOS else [])]
    if token.p is None:
        return f'<span class="{" ".join([*classes, "given"])}">{escape(character(token.word))}</span> '
    about = [f"<b>{escape(token.word)}</b>"]
    if not token.known:
        about.append(f"<p>unknown to the model, which reads {escape(UNK)}</p>")
    about.append(f"<p>p = {probability(token.p)}: <b>{number(token.bits)} bits</b></p>")
    if token.expected:
        about.append(f"<p>expected here:</p>{bars(token.expected, percent)}")
    heat = min(token.bits, HOT) / HOT
    return (
        f'<span class="{" ".join(classes)}" tabindex="0" style="--heat:{heat:.3f}" data-bits="{number(token.bits)}">'
        f"{escape(character(token.word))}"
        f'<span class="tip">{"".join(about)}</span></span> '
    )


def bars(ranked: data.Ranked, value: Callable[[float], str], most: float | None = None, typed: str = "") -> str:
    """A bar for each word; ``most`` is as long as there is room.

    Args:
        value: how a number is written.
        typed: the id of a field that gets a word when it is clicked.
    """
    longest = most or max((size for _, size in ranked), default=1.0)
    rows = []
    for name, size in ranked:
        label = escape(character(name))
        if typed and name.split("→")[-1] not in (EOS, UNK):
            label = f'<button type="button" data-type-into="{typed}" data-word="{escape(name)}">{label}</button>'
        width = 100 * max(0.0, min(1.0, size / longest)) if longest > 0 else 0
        rows.append(
            f'<li><span class="label">{label}</span><span class="track"><span style="width:{width:.1f}%"></span></span>'
            f'<span class="value">{value(size)}</span></li>'
        )
    return f'<ol class="bars">{"".join(rows)}</ol>'


def next_words(found: Mapping[str, data.Next], typed: str) -> str:
    """The next words under several models, with bars of one scale; ``typed`` as in `bars`."""
    most = max((p for own in found.values() for _, p in own.words), default=1.0)
    drawn = []
    for name, own in found.items():
        about = f"{percent(own.share)} begin with {escape(own.begun)}; of these" if own.begun and own.words else ""
        none = note(f"no word begins so; after a space it is read as {UNK}")
        unknown = note(own.warning) if own.warning else ""
        drawn.append(card(name, about, unknown + (bars(own.words, percent, most, typed) if own.words else none)))
    return cards(drawn, beside=True)


def filled(name: str, found: Filled) -> str:
    """The words of each gap side by side, and the sentences that fill all."""
    gaps = [
        card(f"gap {n}", "", note("any number of words") if gap is None else bars(gap, percent))
        for n, gap in enumerate(found.gaps, 1)
    ]
    whole = f'<h3 class="sub">whole sentences</h3>{bars(found.best, percent)}'
    return card(name, f"log p = {found.logprob:.2f} nats", cards(gaps, beside=True) + whole)


def sentence(found: data.SentenceStates) -> str:
    """The states of each word, before and after later words are known."""
    whole = found.read == len(found.words)
    after = "knowing the whole sentence" if whole else f"knowing {found.read} of {len(found.words)} words"
    rows = [
        '<div class="row head"><span>word</span><span>having read up to it</span>'
        f"<span>{after}</span><span>what changed its mind</span></div>"
    ]
    for place, word in enumerate(found.words):
        turn = ""
        if word.turn is not None:
            later = escape(found.words[word.turn.word].word)
            turn = (
                f"<b>{later}</b> moves {percent(word.turn.moved)}: {chip(word.turn.state)} from "
                f"{percent(word.turn.before)} to {percent(word.turn.after)}"
            )
        unknown = f"<small>read as {escape(UNK)}</small>" if not word.known else ""
        classes = ["row", *(["unread"] if place >= found.read else []), *(["turned"] if word.turn else [])]
        rows.append(
            f'<div class="{" ".join(classes)}"><div class="w"><b>{escape(word.word)}</b>{unknown}</div>'
            f"<div>{stack(word.filtered, found.emits, word.path) if place < found.read else ''}</div>"
            f"<div>{stack(word.smoothed, found.emits, word.path)}</div><div>{turn}</div></div>"
        )
    emitted = "".join(
        f"<li>{chip(z)} {', '.join(f'{escape(name)} {percent(p)}' for name, p in ranked)}</li>"
        for z, ranked in found.emits.items()
    )
    path = " ".join(chip(word.path) for word in found.words)
    return (
        f'<div class="states">{"".join(rows)}</div>'
        f'<h2 class="sub">Likeliest path of the whole sentence ({percent(found.share)} of its probability)</h2>'
        f'<p class="path">{path}</p><h2 class="sub">What each state emits</h2><ul class="emits">{emitted}</ul>'
    )


def stack(beliefs: data.Beliefs, emits: Mapping[int, data.Ranked], path: int) -> str:
    """A bar of states, each as wide as it is likely; that of the likeliest path has a frame."""
    parts = []
    for state, p in beliefs:
        ranked = emits[state]
        tip = f"<b>state {state}: {percent(p)}</b><p>emits</p>{bars(ranked, percent)}"
        telling = next((word for word, _ in ranked if word != UNK), "") if p > 0.25 else ""
        kind = "segment on-path" if state == path else "segment"
        parts.append(
            f'<span class="{kind}" tabindex="0" style="flex-grow:{p:.4f};--hue:{hue(state)}"><b>{state}</b>'
            f"<i>{escape(telling)}</i>"
            f'<span class="tip">{tip}</span></span>'
        )
    rest = 1 - sum(p for _, p in beliefs)
    if beliefs and rest > 0.005:
        parts.append(f'<span class="segment rest" style="flex-grow:{rest:.4f}"></span>')
    return f'<div class="stack">{"".join(parts)}</div>' if parts else ""


def chip(state: int) -> str:
    """The number of a state in its colour."""
    return f'<span class="chip" style="--hue:{hue(state)}">{state}</span>'


def hue(state: int) -> int:
    """Degrees on the circle of colours."""
    return round(state * GOLDEN) % 360


def neighbours(name: str, ranked: data.Ranked) -> str:
    """The nearest words by their cosines."""
    return card(name, "", bars(ranked, "{:.2f}".format, 1.0))


def answers(name: str, found: tuple[data.Ranked, data.Ranked], sought: str) -> str:
    """The words that answer an analogy, b − a + a*, which is ``sought``."""
    sides = zip((f"3CosAdd: {escape(sought)}", "3CosMul"), found, strict=True)
    return card(
        name, "", "".join(f'<h3 class="sub">{title}</h3>{bars(ranked, "{:.2f}".format)}' for title, ranked in sides)
    )


def percent(p: float) -> str:
    """A probability in percent, with two digits."""
    if p >= 0.0995:
        return f"{100 * p:.0f}%"
    return f"{100 * p:.1f}%" if p >= 0.00095 or not p else "<0.1%"


def probability(p: float) -> str:
    """A probability, and one in how many it is."""
    return f"{p:.2g}" + (f" (1 in {1 / p:,.0f})" if 0 < p < 0.5 else "")


def number(value: float) -> str:
    """A figure with a digit after the point; infinity as a sign."""
    return f"{value:,.1f}" if math.isfinite(value) else "∞"
