"""The page itself: tabs and fields made with Gradio, and its server on this machine."""

import importlib
import json
import logging
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from lmzoo.core.errors import UserError, one_line
from lmzoo.core.extras import import_optional
from lmzoo.core.options import Bounds, unfit
from lmzoo.page import data, html
from lmzoo.page.examples import Example, example
from lmzoo.page.guard import HOST, SESSIONS, limited
from lmzoo.page.theme import theme
from lmzoo.page.zoo import Zoo
from lmzoo.protocol.sampling import Decoding

NEXT, NEAR, ANSWERS = 12, 8, 6
"""How many next words, nearest words and answers are shown."""

ANY = "any\t"
"""The choice of no label; labels have no tabs."""

MOST_CHARACTERS = 2000
"""That a field takes."""


class Demo:
    """The page, served until it is closed.

    Attributes:
        address: where a browser finds it.
    """

    def __init__(self, blocks: Any, address: str):
        self._blocks, self.address = blocks, address

    def close(self) -> None:
        """Stop the server; browsers that still listen are cut off after a second, of which its log would tell."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        self._blocks.server.config.timeout_graceful_shutdown = 1
        self._blocks.close(verbose=False)

    def __repr__(self) -> str:
        return f"lmzoo demo at {self.address}"


def demo(
    *runs: str | os.PathLike[str], port: int | None = None, device: str = "cpu", plugins: Sequence[str] = ()
) -> Demo:
    """A page on which one plays with runs of one vocabulary, served on this machine alone; a notebook shows it.

    ``lmzoo.demo("outputs/pydoc/lstm", "outputs/pydoc/ngram")``

    Args:
        runs: folders of runs of ``lmzoo train`` and ``lmzoo vectors``.
        port: None is the first free one from 7860.
        plugins: the modules that the runs need; see `lmzoo.core.plugins`.

    Raises: UserError as `Zoo` does, where Gradio is missing, and for ports that are taken.
    """
    return serve(Zoo(runs, device, plugins), port)


def serve(zoo: Zoo, port: int | None = None) -> Demo:
    """`demo` for runs that are open."""
    gradio = imported()
    with suppress(ImportError):
        importlib.import_module("matplotlib.pyplot")  # or Gradio does at the first answer, which takes half a second
    check_port(port)
    blocks = build(zoo)
    folder = Path(__file__).parent
    direct = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if HOST not in direct.split(","):
        os.environ["no_proxy"] = ",".join(filter(None, [direct, HOST]))  # Gradio asks its own server
    try:
        _, address, _ = blocks.launch(
            server_name=HOST, server_port=port, share=False, root_path="", ssr_mode=False, mcp_server=False, pwa=False,
            prevent_thread_lock=True, quiet=True, enable_monitoring=False, footer_links=[], height=800,
            _frontend=False,  # or Gradio gives up where its own server needs more than 3 seconds for an answer
            app_kwargs={"lifespan": limited(blocks)}, state_session_capacity=SESSIONS, run_history=False,
            js=(folder / "script.js").read_text(encoding="utf-8"),
            css=(folder / "style.css").read_text(encoding="utf-8"), theme=theme(gradio),
        )  # fmt: skip
    except OSError as error:
        raise UserError(one_line(error).partition(".")[0], "choose a port with --port") from None
    return Demo(blocks, address)


def check_port(port: int | None) -> None:
    """Raise a UserError for a port that is taken, or may not be used; without one, Gradio takes the first free one."""
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((HOST, port or 0))
        except (OSError, OverflowError) as error:
            what = f"--port {port}: cannot be used ({getattr(error, 'strerror', None) or error})"
            raise UserError(what, "choose another, or none for the first free one") from None


def build(zoo: Zoo) -> Any:
    """The page as a `gradio.Blocks`, which no server serves yet."""
    gradio = imported()
    with gradio.Blocks(title="lmzoo demo", analytics_enabled=False) as blocks:
        page = _Page(gradio, zoo, example(zoo))
        page.html(html.header(zoo))
        with gradio.Tabs():
            for title, fill, shown, introduction in (
                ("Surprisal", page.surprisal, zoo.models,
                 "How surprised is each model by each word, having read those before it? The stronger its colour, the "
                 "more bits, −log₂ p, below it. Point at a word to see what was expected in its place. Write two lines "
                 "to compare them."),
                ("Next word", page.next_words, zoo.predicting,
                 "Which word comes next? Type, and watch the bars move; while a word is unfinished, they are those "
                 "that begin like it. A click on a word types it."),
                ("Generate", page.generation, zoo.predicting,
                 "A model draws a text word by word. Its colours are its own surprisal. A lower temperature, top-k and "
                 "top-p leave out what is unlikely; the same seed draws the same text."),
                ("Hidden states", page.states, zoo.hmms,
                 "Behind each word is a hidden state. Having read up to a word, the model believes in some states; "
                 "later words make it change its mind. Move the slider to see at which."),
                ("Gaps", page.gaps, zoo.hmms and zoo.vocabulary.form.of_words,
                 "An HMM knows what stands in a gap, exactly, from the words on both sides. Write ___ for a word, "
                 "[a|b] for one of several, one … for any number of words, and watch the bars of every gap change "
                 "with each word elsewhere."),
                ("Word vectors", page.neighbours, zoo.vectors,
                 "Words that occur in like surroundings have like vectors: neighbours by cosine, and analogies."),
            ):  # fmt: skip
                if shown:
                    with gradio.Tab(title):
                        page.html(f'<p class="lead">{introduction}</p>')
                        fill()
    return blocks


class _Page:
    """The tabs: each method makes the fields of one, and says what is drawn of their values."""

    def __init__(self, gradio: Any, zoo: Zoo, first: Example):
        self.gradio, self.zoo, self.first = gradio, zoo, first
        self.forms: dict[int, Any] = {}
        self.cut = partial(data.tokenized, zoo.vocabulary)

    def takes(self, field: Any, form: Any) -> Any:
        """A field, whose values must have a form: a browser sends others while one types, and a program any."""
        self.forms[field._id] = form
        return field

    def html(self, value: str = "") -> Any:
        """A part of the page in which nothing is typed."""
        return self.gradio.HTML(value, elem_classes="lm", js_on_load=None)

    def field(self, label: str, value: str, **options: Any) -> Any:
        """A field for text."""
        return self.takes(self.gradio.Textbox(value, label=label, max_length=MOST_CHARACTERS, **options), str)

    def number(self, field: Any) -> Any:
        """A field for a number within its bounds."""
        kind = int if field.step >= 1 else float
        return self.takes(field, Annotated[kind, Bounds(field.minimum, field.maximum)])

    def choice(self, label: str, choices: Sequence[str]) -> Any:
        """One of several names; where there is one alone, nothing is to be seen."""
        field = self.gradio.Radio(list(choices), value=choices[0], label=label, visible=len(choices) > 1)
        return self.takes(field, Literal[tuple(choices)])

    def label(self) -> Any:
        """The label of the lines, where the runs know labels."""
        return self.choice("label of the lines", [ANY, *self.zoo.vocabulary.conditions])

    def examples(self, values: Sequence[Sequence[str]], *fields: Any) -> None:
        """Values that a click puts into fields, which the server is not asked for."""
        rows = [list(row) for row in values]
        choices = self.gradio.Dataset(components=list(fields), samples=rows, type="index", label="try")
        choices.click(None, choices, list(fields), js=f"(row) => {json.dumps(rows)}[row]", show_progress="hidden")

    def on(
        self,
        triggers: Sequence[Any],
        draw: Callable[..., Any],
        fields: Sequence[Any],
        output: Any,
    ) -> None:
        """Draw the values of fields at each of the triggers; of several that wait, the last one alone.

        Args:
            output: where, or a list of this and of fields that get new bounds, which a mistake leaves as they are.
        """
        unchanged = [self.gradio.skip()] * (len(output) - 1) if isinstance(output, list) else []
        self.gradio.on(
            list(triggers), self.checked(draw, fields, unchanged), list(fields), output, trigger_mode="always_last",
            show_progress="hidden", concurrency_limit=1, concurrency_id="models", api_visibility="private",
            preprocess=False,  # or Gradio raises where a number is none, or out of its bounds, while one types it
        )  # fmt: skip

    def checked(self, draw: Callable[..., Any], fields: Sequence[Any], unchanged: Sequence[Any] = ()) -> Any:
        """The same function, but a mistake in a value is drawn, such as a number that its field cannot have."""
        forms = [(field.label.partition(":")[0], self.forms[field._id]) for field in fields]

        def drawing(*values: Any) -> Any:
            try:
                for (label, form), value in zip(forms, values, strict=True):
                    if wrong := unfit(value, form):
                        raise UserError(f"{label}: must be {wrong}")
                    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
                        raise UserError(f"{label}: has {len(value):,} characters, at most {MOST_CHARACTERS:,} are read")
                return draw(*values)
            except UserError as error:
                note = html.note(one_line(error))
                return (note, *unchanged) if unchanged else note

        return drawing

    def shows(self, draw: Callable[..., str], *fields: Any) -> None:
        """What is drawn of the values of fields, at first and whenever one of them changes."""
        output = self.html(self.checked(draw, fields)(*(field.value for field in fields)))
        self.on([field.change for field in fields], draw, fields, output)

    def surprisal(self) -> None:
        """A text in the colours of its surprisal, model under model."""
        text, label = self.field("text", self.first.text, lines=2, max_lines=8), self.label()

        def draw(text: str, label: str) -> str:
            text, given = self.cut(text), _condition(label)
            scored = {name: data.surprisal(lm, text, given) for name, lm in self.zoo.models.items()}
            return html.scale() + html.cards(html.surprisal(*each) for each in scored.items()) + html.downloads(scored)

        self.shows(draw, text, label)

    def next_words(self) -> None:
        """The next words while one types, model beside model."""
        text, label = self.field("beginning of a line", self.first.begun, elem_id="begun"), self.label()
        typed = "begun" if self.zoo.vocabulary.form.of_words else ""

        def draw(text: str, label: str) -> str:
            condition = _condition(label)
            found = {name: data.next_words(lm, text, NEXT, condition) for name, lm in self.zoo.predicting.items()}
            return html.next_words(found, typed)

        self.shows(draw, text, label)

    def generation(self) -> None:
        """Texts that a model draws."""
        gradio = self.gradio
        with gradio.Row():
            with gradio.Column(scale=1, min_width=280):
                model, prompt = self.choice("model", [*self.zoo.predicting]), self.field("prompt", self.first.begun)
                temperature = self.number(gradio.Slider(0.1, 2, 1, step=0.05, label="temperature"))
                top_k = self.number(
                    gradio.Slider(0, 100, 0, step=1, label="top-k: from the k likeliest words; 0 is all")
                )
                top_p = self.number(
                    gradio.Slider(0.05, 1, 1, step=0.05, label="top-p: from the likeliest with this share")
                )
                tokens = self.number(gradio.Slider(5, 100, 30, step=5, label="words"))
                number = self.number(gradio.Slider(1, 8, 3, step=1, label="samples"))
                seed = self.number(gradio.Number(0, label="seed", precision=0, minimum=0, maximum=2**31 - 1))
                label = self.label()
            with gradio.Column(scale=2, min_width=280):

                def draw(
                    model: str, prompt: str, temperature: float, top_k: int, top_p: float, tokens: int, number: int,
                    seed: int, label: str,
                ) -> str:  # fmt: skip
                    decoding = Decoding(temperature=temperature, top_k=top_k or None, top_p=top_p)
                    lm = self.zoo.predicting[model]
                    found = data.samples(lm, prompt, tokens, seed, number, decoding, _condition(label))
                    return html.scale() + html.sampled(model, found)

                self.shows(draw, model, prompt, temperature, top_k, top_p, tokens, number, seed, label)

    def states(self) -> None:
        """The states of an HMM, before and after later words are known."""
        gradio = self.gradio
        model = self.choice("model", [*self.zoo.hmms])
        text = self.field("sentence", self.first.text)
        longest = len(self.zoo.vocabulary.form.words(self.first.text)) + 1
        slider = gradio.Slider(1, longest, longest, step=1, label="words read, the end of the sentence included")
        known = self.takes(slider, Annotated[int, Bounds(1, data.LONGEST + 1)])

        def draw(model: str, text: str, known: int | None = None) -> str:
            return html.sentence(data.states(self.zoo.hmms[model], self.cut(text), known))

        def anew(model: str, text: str) -> tuple[str, Any]:
            words = max(1, len(self.zoo.vocabulary.form.words(self.cut(text)))) + 1
            return draw(model, text), gradio.Slider(1, words, words)

        output = self.html(self.checked(draw, [model, text])(model.value, text.value))
        self.on([model.change, text.change], anew, [model, text], [output, known])
        self.on([known.input], draw, [model, text, known], output)

    def gaps(self) -> None:
        """The words that may stand in the gaps of a sentence, model under model."""
        text = self.field("sentence with gaps", self.first.gaps)

        def draw(text: str) -> str:
            found = {name: data.gaps(lm, text, ANSWERS) for name, lm in self.zoo.hmms.items()}
            return html.cards(html.filled(*each) for each in found.items())

        self.shows(draw, text)

    def neighbours(self) -> None:
        """The nearest words, and analogies."""
        gradio = self.gradio
        with gradio.Row():
            with gradio.Column(min_width=280):
                word = self.field("nearest to", self.first.word)

                def near(word: str) -> str:
                    found = {name: data.neighbours(run.words, word, NEAR) for name, run in self.zoo.vectors.items()}
                    return html.cards(html.neighbours(*each) for each in found.items())

                self.shows(near, word)
            with gradio.Column(min_width=280):
                with gradio.Row():
                    of = self.first.analogies[0]
                    a, a_star, b = (
                        self.field(label, value, min_width=80)
                        for label, value in zip(("as", "is to", "so is"), of, strict=True)
                    )

                def answers(a: str, a_star: str, b: str) -> str:
                    runs = self.zoo.vectors.items()
                    found = {name: data.analogy(run.words, a, a_star, b, ANSWERS) for name, run in runs}
                    return html.cards(html.answers(*each, f"{b} − {a} + {a_star}") for each in found.items())

                self.shows(answers, a, a_star, b)
                self.examples(self.first.analogies, a, a_star, b)


def _condition(label: str) -> str | None:
    return None if label == ANY else label


def imported() -> Any:
    """Gradio, which takes seconds to import; a UserError where it is not installed."""
    return import_optional("gradio", "lmzoo demo", "gradio", "'lmzoo-torch[demo]'")
