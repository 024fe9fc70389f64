"""The pages in a real browser: live cards, gaps and evidence, search, the keyboard and accessibility."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("playwright", reason="needs playwright")

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from backscroll.operators.messages import ChannelKey
from backscroll.web.dependencies import channel_path
from support.browser import chromium, opened
from support.reading import HARBOR, MARKUP, Chat, chat_of_two_namespaces, served

expect.set_options(timeout=15_000)  # a machine may be busy
DESK = {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"}
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "color_scheme": "dark"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:  # no longer than these tests: it keeps an event loop in their thread
        yield browser


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chat]:
    with chat_of_two_namespaces(tmp_path_factory.mktemp("store")) as chat:
        yield chat


@pytest.fixture(scope="module")
def address(chat: Chat) -> Iterator[str]:
    with served(chat.path) as address:
        yield address


def focused(page: Page) -> str:
    """The id of the focused element."""
    return str(page.evaluate("document.activeElement.id"))


def accessible(page: Page) -> list[str]:
    """The violations axe finds: the rules and the elements that break them."""
    found = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {node['target']}" for rule in found for node in rule["nodes"]]


def test_a_gap_opens_the_earlier_message_that_explains_it_by_click_and_by_key(
    browser: Browser, address: str
) -> None:
    with opened(browser, address) as page:
        page.get_by_role("link", name="harbor", exact=False).first.click()
        page.locator("#w-3 .gap", has_text="The old one").click()
        panel = page.locator("#panel")
        expect(panel.get_by_role("heading", name="“The old one”")).to_be_focused()
        expect(panel.locator(".evidence .chosen .text")).to_have_text(
            "The pump at berth seven leaks oil since Friday."
        )
        expect(panel.locator(".evidence .message")).to_have_count(3)  # in its context
        page.keyboard.press("Escape")
        expect(panel).to_be_hidden()
        assert page.evaluate("document.activeElement.className") == "gap"
        page.locator("#w-3").focus()
        page.keyboard.press("e")
        expect(panel.locator(".evidence .chosen")).to_be_visible()
        page.get_by_role("button", name="Close the panel").click()
        expect(panel).to_be_hidden()


def test_a_sentence_links_to_its_message_and_markup_is_escaped(browser: Browser, address: str) -> None:
    with opened(browser, f"{address}/c/acme/harbor") as page:
        page.locator("#w-0 .said", has_text="I ordered a new valve").click()
        expect(page.locator("#panel .chosen .text")).to_contain_text("I ordered a new valve for it")
        link = page.locator("#panel .chosen .text a")
        expect(link).to_have_attribute("href", "https://parts.example.com/valve")
        expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
        page.locator("#w-3 .open").click()
        expect(page.locator("#panel #m-4 .text")).to_have_text(MARKUP)
        assert page.title() == "harbor · Backscroll"


def test_new_summaries_appear_on_top_and_updated_ones_are_replaced_in_place(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        chat_of_two_namespaces(tmp_path) as chat,
        served(tmp_path) as address,
        opened(browser, f"{address}/c/acme/harbor") as page,
    ):
        expect(page.locator(".card")).to_have_count(2)
        window = chat.window(HARBOR, ("Ana", "The ship has sailed."), day=2)
        expect(page.locator(".card").first).to_contain_text("The ship has sailed.")
        expect(page.locator("#announce")).to_have_text("A new summary has arrived.")
        chat.window(HARBOR, ("Ben", "Now we rest."), day=2)
        expect(page.locator(".card").first).to_contain_text("Now we rest.")
        chat.summarise(HARBOR, window, text="They left.", revision=1)
        expect(page.locator(".card").nth(1)).to_contain_text("They left.")
        expect(page.locator(".card")).to_have_count(4)
        # All of it counts as seen, also in the list, which updates while it is open.
        page.goto(address)
        harbor = page.locator(".channel", has=page.get_by_text("harbor", exact=True))
        expect(harbor).to_contain_text("nothing new")
        chat.window(HARBOR, ("Cem", "Who is on watch?"), day=3)
        expect(harbor).to_contain_text("1 new")
        # The list also shows a summary that arrives after its window, and drops one that is erased.
        late = chat.window(HARBOR, ("Dana", "The tide is late."), day=3, summarised=False)
        expect(harbor).to_contain_text("2 new")
        assert "The tide" not in harbor.inner_text()
        chat.summarise(HARBOR, late)
        expect(harbor).to_contain_text("The tide is late.")
        chat.delete(HARBOR, late.ref.first_seq)
        expect(harbor).not_to_contain_text("The tide is late.")


def test_everything_can_be_done_with_the_keyboard(browser: Browser, address: str) -> None:
    with opened(browser, f"{address}/c/acme/harbor") as page:
        press = page.keyboard.press
        press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to content"
        press("j")
        assert focused(page) == "w-3"
        press("j")
        assert focused(page) == "w-0"
        press("k")
        press("Enter")
        expect(page.locator("#panel .message")).to_have_count(3)
        expect(page.locator("#panel-title")).to_be_focused()
        press("j")
        assert focused(page) == "m-3"
        press("Escape")
        assert focused(page) == "w-3"
        press("?")
        expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
        press("Escape")
        press("/")
        assert focused(page) == "q"
        page.keyboard.type("valve oslo jj")
        press("Enter")
        expect(page.locator(".hit").first).to_contain_text("I ordered a new valve")
        expect(page.locator(".hit mark")).to_have_text(["valve", "Oslo"])
        press("j")
        press("Enter")
        expect(page.locator("#panel .chosen .text")).to_contain_text("I ordered a new valve")
        press("u")
        page.wait_for_url(f"{address}/")


def test_a_catch_up_works_with_the_keyboard_and_every_line_links_to_its_message(
    browser: Browser, address: str
) -> None:
    with opened(browser, f"{address}/c/acme/harbor") as page:
        page.keyboard.press("c")
        page.wait_for_url("**/catchup?channel=acme/harbor")
        expect(page.get_by_text("Nothing new")).to_be_visible()
        page.get_by_label("Since").fill("2026-03-02")
        page.get_by_label("I am").fill("Ben")
        page.keyboard.press("Enter")
        expect(page.locator(".digest h2")).to_have_text("harbor")
        expect(page.get_by_role("combobox", name="Channel")).to_have_value("acme/harbor")
        words = page.locator(".item .words").first.inner_text()
        page.locator("h1").click()
        page.keyboard.press("j")
        expect(page.locator(".item").first).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.locator("#panel .chosen .text")).to_contain_text(words)
        page.keyboard.press("Escape")
        expect(page.locator(".item").first).to_be_focused()


def test_a_catch_up_since_the_last_visit_is_one_click_away(browser: Browser, tmp_path: Path) -> None:
    with (
        chat_of_two_namespaces(tmp_path) as chat,
        served(tmp_path) as address,
        opened(browser, f"{address}/c/acme/harbor") as page,
    ):
        page.goto(address)
        chat.window(HARBOR, ("Cem", "We decided to sail on Monday."), ("Ana", "Fine."), day=3)
        page.get_by_role("link", name="Catch me up on harbor").click()
        expect(page.locator(".digest .words")).to_have_text(["We decided to sail on Monday."])
        expect(page.locator("main")).to_contain_text("After the message from Tue 3 Mar 2026, 09:05 UTC")


def test_right_to_left_text_and_emoji_are_laid_out_correctly(browser: Browser, tmp_path: Path) -> None:
    hebrew, family = "מי מביא את הדוחות של הנמל?", "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}"
    key = ChannelKey("acme", "נמל 🚢")
    with chat_of_two_namespaces(tmp_path) as chat, served(tmp_path) as address:
        chat.window(key, ("ליה", f"{hebrew} v2.0 (draft)"), ("Lena", f"We decided {family}: ליה 🎉"))
        with opened(browser, f"{address}/catchup?since=2026-03-01&channel={quote(str(key))}") as page:
            expect(page.locator(".digest h2")).to_have_text("נמל 🚢")
            words = page.locator(".words", has_text=hebrew)
            expect(words).to_have_css("direction", "rtl")
            expect(page.locator(".digest > .meta")).to_have_css("direction", "ltr")
            expect(page.locator(".words", has_text="We decided")).to_have_text(f"We decided {family}: ליה 🎉")
            words.locator("a").click()
            expect(page.locator("#panel .chosen .text")).to_have_css("direction", "rtl")
            page.goto(f"{address}/c/{channel_path(key)}")
            expect(page.locator(".line").first).to_have_css("direction", "rtl")
            expect(page.locator("h1")).to_have_text("נמל 🚢")


def test_you_can_jump_to_a_day(browser: Browser, address: str) -> None:
    with opened(browser, f"{address}/c/acme/harbor") as page:
        page.get_by_label("Go to day").fill("2026-03-02")
        page.get_by_role("button", name="Go", exact=True).click()
        expect(page.locator(".card")).to_have_count(1)
        expect(page.locator("h2.day")).to_have_text("Mon 2 Mar 2026")
        page.get_by_role("link", name="Back to the newest").click()
        expect(page.locator(".card")).to_have_count(2)


@pytest.mark.parametrize("device", [DESK, PHONE], ids=["light desk", "dark phone"])
def test_axe_finds_no_accessibility_violations(
    browser: Browser, address: str, device: dict[str, object]
) -> None:
    with opened(browser, address, **device) as page:
        assert accessible(page) == []
        page.goto(f"{address}/c/acme/harbor")
        page.locator("#w-3 .gap").click()
        expect(page.locator("#panel .evidence")).to_be_visible()
        assert accessible(page) == []
        page.goto(f"{address}/catchup?since=2026-03-01&me=Ben")
        expect(page.locator(".digest").first).to_be_visible()
        assert accessible(page) == []
        page.goto(f"{address}/search?q=pump")
        assert accessible(page) == []
        width = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert width == 0  # no horizontal scrolling


def test_the_chosen_colours_are_remembered(browser: Browser, address: str) -> None:
    with opened(browser, address, color_scheme="light") as page:
        paper = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(paper)
        page.get_by_role("button", name="Colours: system").click()
        page.get_by_role("button", name="Colours: light").click()
        assert page.evaluate(paper) != light
        page.reload()
        expect(page.get_by_role("button", name="Colours: dark")).to_be_visible()
        assert page.evaluate(paper) != light


def test_without_javascript_every_link_opens_a_page(browser: Browser, address: str) -> None:
    with opened(browser, f"{address}/c/acme/harbor", java_script_enabled=False) as page:
        page.locator("#w-3 .gap").click()
        expect(page.locator("main .evidence .chosen .text")).to_have_text(
            "The pump at berth seven leaks oil since Friday."
        )
