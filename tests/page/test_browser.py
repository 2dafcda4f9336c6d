"""The page in headless Chromium: each tab does what it says, and nobody is asked but this machine."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lmzoo.page import app, data, html
from lmzoo.page.zoo import Zoo

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of libraries

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""


@dataclass
class Opened:
    """A page in a browser.

    Attributes:
        page: Playwright's.
        asked: the addresses that it has asked for.
        errors: of scripts.
    """

    page: Any
    asked: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name).click()

    def shows(self, text: str) -> None:
        """Wait until a text can be seen."""
        self.page.get_by_text(text).locator("visible=true").first.wait_for()

    def seen(self, selector: str) -> str:
        """The text of a part that can be seen."""
        return self.page.locator(selector).locator("visible=true").first.inner_text()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    pytest.importorskip("gradio")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if not CHROMIUM:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def served(zoo: Zoo, browser: Any) -> Iterator[str]:
    page = app.serve(zoo)
    yield page.address
    page.close()


@pytest.fixture
def opened(served: str, browser: Any) -> Iterator[Opened]:
    """The page at 1,280 pixels; afterwards it has asked this machine alone, and no script has failed."""
    found = Opened(browser.new_page(viewport={"width": 1280, "height": 900}))
    found.page.on("request", lambda request: found.asked.append(request.url))
    found.page.on("pageerror", lambda error: found.errors.append(str(error)))
    found.page.on("dialog", lambda dialog: found.errors.append(dialog.message) or dialog.dismiss())
    found.page.goto(served)
    found.page.locator(".card").first.wait_for()
    yield found
    found.page.close()
    assert found.asked
    assert {url for url in found.asked if not re.match(r"(data|blob):", url) and not url.startswith(served)} == set()
    assert found.errors == []


def test_a_text_is_coloured_and_tells_of_its_words(opened: Opened, zoo: Zoo):
    opened.page.get_by_label("text", exact=True).fill("the xylophone of england")
    opened.page.locator(".word.unknown", has_text="xylophone").first.wait_for()
    assert opened.page.locator(".card h2").all_inner_texts()[: len(zoo.models)] == [*zoo.models]
    (line,) = data.surprisal(zoo.models["ngram"], "the xylophone of england")
    opened.page.locator(".word", has_text="england").first.hover()
    told = opened.seen("#tip-box")
    assert f"{html.number(line[3].bits)} bits" in told
    assert [word for word, _ in line[3].expected] == opened.page.locator("#tip-box .label").all_inner_texts()
    opened.page.locator(".word", has_text="xylophone").first.focus()
    assert "unknown to the model, which reads <unk>" in opened.seen("#tip-box")
    opened.page.keyboard.press("Escape")
    opened.page.locator("#tip-box").wait_for(state="hidden")


def test_a_link_opens_a_tab_with_its_text(opened: Opened, served: str):
    opened.tab("Hidden states")
    opened.page.get_by_label("sentence", exact=True).fill("the dog, barks & sees")
    opened.page.wait_for_function("location.hash.includes('barks')")
    address = opened.page.url
    opened.page.goto("about:blank")
    opened.page.goto(address)
    opened.page.locator(".row .w", has_text="sees").wait_for()
    assert opened.page.get_by_label("sentence", exact=True).input_value() == "the dog, barks & sees"


def test_two_lines_stand_side_by_side_and_are_saved(opened: Opened, zoo: Zoo, tmp_path: Path):
    opened.page.get_by_label("text", exact=True).fill("the dog barks\nthe cat sees")
    opened.page.locator(".word", has_text="cat").first.wait_for()
    one, two = opened.page.locator(".card").first.locator(".line").all()
    assert one.bounding_box()["y"] == two.bounding_box()["y"]
    for label, name in (("save as CSV", "surprisal.csv"), ("save as picture", "surprisal.png")):
        with opened.page.expect_download() as saving:
            opened.page.get_by_text(label).click()
        saving.value.save_as(tmp_path / name)
        assert saving.value.suggested_filename == name
    _, *rows = (tmp_path / "surprisal.csv").read_text().splitlines()
    assert len(rows) == 8 * len(zoo.models)
    assert (tmp_path / "surprisal.png").read_bytes().startswith(b"\x89PNG")


def test_texts_are_no_scripts_and_no_templates(opened: Opened):
    evil = "<img/src=x/onerror=alert(1)> ${alert(2)} {{value}} {{#each}} &lt; \\u0041 `z`"
    opened.page.get_by_label("text", exact=True).fill(evil)
    opened.page.locator(".word", has_text="${alert(2)}").first.wait_for()
    assert opened.seen(".text").split() == [*evil.split(), "<eos>"]
    assert opened.page.locator(".text img").count() == 0


def test_next_words_move_while_one_types_and_a_click_types_one(opened: Opened, zoo: Zoo):
    opened.tab("Next word")
    field = opened.page.locator("#begun textarea, #begun input")
    field.fill("the dog r")
    opened.shows("begin with r")
    ngram = data.next_words(zoo.models["ngram"], "the dog r", app.NEXT)
    card = opened.page.locator(".card:has(.bars)").locator("visible=true").first
    assert card.locator(".label").all_inner_texts() == [word for word, _ in ngram.words]
    card.get_by_role("button", name="river").click()
    opened.page.wait_for_function("document.querySelector('#begun textarea, #begun input').value == 'the dog river '")
    best = data.next_words(zoo.models["ngram"], "the dog river ", app.NEXT).words
    value = html.percent(best[0][1])
    card.locator("li", has_text=best[0][0]).filter(has_text=value).first.wait_for()


def test_samples_follow_the_knobs(opened: Opened, zoo: Zoo):
    opened.tab("Generate")
    opened.page.get_by_label("number input for samples").fill("2")
    opened.page.get_by_label("number input for top-k").fill("1")
    opened.page.get_by_label("number input for words").fill("10")
    opened.page.get_by_label("prompt").fill("the bank")
    opened.page.get_by_label("lstm", exact=True).locator("visible=true").check()
    decoding = app.Decoding(top_k=1)
    first, _ = data.samples(zoo.models["lstm"], "the bank", 10, 0, 2, decoding)
    words = " ".join(token.word for token in (*first.prompt, *first.tokens))
    opened.page.wait_for_function(
        "words => [...document.querySelectorAll('.samples .text')].filter(text => "
        "[...text.querySelectorAll('.word')].map(word => word.firstChild.data).join(' ') == words).length == 2",
        arg=words,
    )
    assert opened.page.locator(".samples .word[tabindex]").count() == 20


def test_the_slider_says_how_much_of_the_sentence_is_known(opened: Opened, zoo: Zoo):
    opened.tab("Hidden states")
    opened.page.get_by_label("sentence", exact=True).fill("the dog barks")
    opened.page.locator(".row .w", has_text="barks").wait_for()
    assert opened.page.locator(".row .w").all_inner_texts() == ["the", "dog", "barks", "<eos>"]
    slider = opened.page.get_by_role("slider").locator("visible=true").first
    assert slider.get_attribute("max") == "4"
    slider.focus()
    opened.page.keyboard.press("ArrowLeft")
    opened.page.keyboard.press("ArrowLeft")
    opened.shows("knowing 2 of 4 words")
    assert opened.page.locator(".row.unread").count() == 2
    hmm = data.states(zoo.models["hmm"], "the dog barks", 2)
    (state, p), *_ = hmm.words[0].smoothed
    segment = opened.page.locator(".row:nth-child(2) > div:nth-child(3) .segment").first
    assert segment.inner_text().split()[0] == str(state)
    segment.hover()
    assert f"state {state}: {html.percent(p)}" in opened.seen("#tip-box")
    opened.page.get_by_label("vlhmm", exact=True).locator("visible=true").check()
    opened.shows("knowing the whole sentence")


def test_filled_gaps_are_not_cut_on_a_narrow_page(opened: Opened):
    opened.tab("Gaps")
    opened.page.get_by_label("sentence with gaps").fill("the ___ barks and the ___ sees the dog and the cat")
    opened.page.set_viewport_size({"width": 400, "height": 800})
    whole = opened.page.locator(".card > .bars .label", has_text="sees the dog and the cat").locator("visible=true")
    whole.first.wait_for()
    assert whole.evaluate_all("labels => labels.every(label => label.scrollWidth <= label.clientWidth)")


def test_neighbours_and_analogies(opened: Opened, zoo: Zoo):
    vectors = zoo.vectors["ppmi"].words
    opened.tab("Word vectors")
    opened.page.get_by_label("nearest to").fill("dog")
    near = data.neighbours(vectors, "dog", app.NEAR)
    opened.page.wait_for_function(
        "words => [...document.querySelectorAll('.bars')].some(bars => "
        "[...bars.querySelectorAll('.label')].map(label => label.innerText).join(' ') == words)",
        arg=" ".join(word for word, _ in near),
    )  # fmt: skip
    for label, word in (("as", "dog"), ("is to", "cat"), ("so is", "bank")):
        opened.page.get_by_label(label, exact=True).fill(word)
    answer = data.analogy(vectors, "dog", "cat", "bank", app.ANSWERS)[0][0]
    opened.page.locator("h3:has-text('3CosAdd') + .bars li", has_text=answer[0]).first.wait_for()


def test_words_of_other_alphabets_are_shown_and_typed_as_they_are(opened: Opened, zoo: Zoo):
    text = "банк τράπεζα 銀行 the"
    opened.page.get_by_label("text", exact=True).fill(text)
    opened.page.locator(".word", has_text="銀行").first.wait_for()
    assert opened.seen(".text").split() == [*text.split(), "<eos>"]
    assert opened.page.locator(".word.unknown").count() == 0
    opened.tab("Next word")
    field = opened.page.locator("#begun textarea, #begun input")
    for begun, word in (("б", "банк"), ("τρ", "τράπεζα"), ("銀", "銀行")):
        field.fill(f"the {begun}")
        opened.shows(f"begin with {begun}")
        opened.page.locator("button[data-word]", has_text=word).locator("visible=true").first.click()
        opened.page.wait_for_function(
            "text => document.querySelector('#begun textarea, #begun input').value == text", arg=f"the {word} "
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(served: str, browser: Any, scheme: str):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    page.goto(served)
    page.locator(".card").first.wait_for()
    for tab in ("Surprisal", "Next word", "Generate", "Hidden states", "Gaps", "Word vectors"):
        page.get_by_role("tab", name=tab).click()
        page.locator(".card, .states").locator("visible=true").first.wait_for()
        found = axe.Axe().run(page).response["violations"]
        told = [(fault["id"], [node["html"] for node in fault["nodes"]]) for fault in found]
        assert (tab, told) == (tab, [])
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_it_fits_its_window(served: str, browser: Any, width: int, scheme: str, tmp_path: Path):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(served)
    page.locator(".card").first.wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator("body.dark").count() == (scheme == "dark")
    page.close()
