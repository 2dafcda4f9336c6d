"""Pictures of the page of ``lmzoo demo``: ``python docs/pictures/demo_pictures.py FOLDER CHROMIUM RUN…``.

FOLDER gets ``demo-surprisal.png``, ``demo-states.png`` and ``demo-vectors.png``. It takes the extra ``demo`` and
Playwright; CHROMIUM is the browser's program, such as /usr/bin/chromium. The runs are of Penn Treebank.
"""

import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

import lmzoo

WIDTH = 1100


def draw(page: Page, folder: Path) -> None:
    """Take the pictures of a page that is open."""
    page.locator(".word", has_text="england").first.hover()
    page.locator("#tip-box").wait_for()
    shoot(page, folder / "demo-surprisal.png", ".card >> nth=3")
    page.mouse.move(0, 0)
    page.get_by_role("tab", name="Hidden states").click()
    shoot(page, folder / "demo-states.png", ".states >> visible=true")
    page.get_by_role("tab", name="Word vectors").click()
    page.get_by_text("france", exact=True).click()
    page.get_by_text("german", exact=True).first.wait_for()
    shoot(page, folder / "demo-vectors.png", ".card:has(h3) >> visible=true")


def shoot(page: Page, file: Path, last: str) -> None:
    """The page from its top to the end of a part."""
    page.locator(last).scroll_into_view_if_needed()
    box = page.locator(last).bounding_box()
    assert box is not None
    below = box["y"] + box["height"] + page.evaluate("window.scrollY") + 16
    page.screenshot(path=file, full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": below})


def main() -> None:
    folder, chromium, *runs = sys.argv[1:]
    demo = lmzoo.demo(*runs)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 1400}, color_scheme="light")
        page.goto(demo.address)
        draw(page, Path(folder))
        browser.close()
    demo.close()


if __name__ == "__main__":
    main()
