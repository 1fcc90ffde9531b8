"""The page in a real browser: what it shows, that it fetches nothing, and that large networks can be used."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from ortconv.reporting import document, page
from tests.command_line import refused, upsampling, write
from tests.reporting.test_document import WEIGHTS

playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")


class Opened:
    """A page that a browser shows, and what the browser reported meanwhile."""

    def __init__(self, browser: Any, file: pathlib.Path, width: int, scheme: str) -> None:
        self.messages: list[str] = []
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("request", lambda request: self._requested(request.url))
        self.page.goto(file.as_uri())

    def _requested(self, url: str) -> None:
        if not url.startswith(("file:", "blob:")):
            self.messages.append(f"fetched {url}")

    def drawn(self, *sides: str) -> None:
        """Waits until networks are drawn."""
        for side in sides:
            self.page.wait_for_selector(f"html[data-{side}=drawn]", state="attached", timeout=120000)

    def click_node(self, side: str, number: int) -> None:
        """Clicks where a node is drawn."""
        place = self.page.evaluate(
            f"(() => {{ const at = views.{side}.getElementById('n{number}').renderedPosition();"
            f"const box = byId('{side}').getBoundingClientRect(); return [box.x + at.x, box.y + at.y]; }})()"
        )
        self.page.mouse.click(*place)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        launched = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def upsampled(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("page")
    source = write(upsampling(name="</script><b>up"), folder / "up.json")
    found = document.gather(source, target="plugin", tensors=WEIGHTS, runs=1, threads=1)
    file = folder / "up.html"
    file.write_text(page.render(found.document), encoding="utf-8")
    return file


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 480])
def test_page_shows_all_and_fits_its_window(browser: Any, upsampled: pathlib.Path, width: int, scheme: str) -> None:
    opened = Opened(browser, upsampled, width, scheme)
    opened.drawn("before", "after")
    shown = opened.page
    assert shown.inner_text("#cards .card >> nth=0").startswith("agrees")
    assert "3 → " in shown.inner_text("#cards .card >> nth=1")
    assert "times" in shown.inner_text("#cards .card >> nth=2")
    for table, count in (("#layers", 3), ("#nodes", 1)):
        assert shown.locator(f"{table} .tabulator-row").count() >= count
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    lightness = shown.evaluate("getComputedStyle(document.body).backgroundColor").removeprefix("rgb(").split(",")[0]
    assert (int(lightness) > 128) == (scheme == "light")
    colors = [
        shown.evaluate(f"views.before.getElementById('n{number}').style('background-color')") for number in (1, 2)
    ]
    assert colors[0] != colors[1], "what became ours is highlighted"
    assert opened.messages == []
    shown.close()


def test_click_tells_of_a_node_and_marks_its_twins(browser: Any, upsampled: pathlib.Path) -> None:
    opened = Opened(browser, upsampled, 1440, "light")
    opened.drawn("before", "after")
    opened.click_node("before", 1)
    details = opened.page.locator("#details")
    details.get_by_text("Becomes").wait_for()
    for part in ("ConvolutionBackwardData", "Warnings", "strides", "[2, 2]", "Error of", "Time", "with it"):
        assert part in details.inner_text()
    assert opened.page.evaluate("views.after.nodes('.twin').length") >= 1
    details.get_by_role("button").first.click()
    assert "Made for" in details.inner_text()
    opened.page.fill("#find", "sigmoid")
    opened.page.press("#find", "Enter")
    assert "Sigmoid" in details.inner_text()
    for mode in ("error", "time"):
        opened.page.select_option("#mode", mode)
        assert opened.page.evaluate("views.before.getElementById('n1').style('background-color')").startswith("rgb(")
    assert opened.messages == []
    opened.page.close()


def test_refused_source_has_a_page(browser: Any, tmp_path: pathlib.Path) -> None:
    found = document.gather(write(refused(), tmp_path / "refused.json"))
    file = tmp_path / "refused.html"
    file.write_text(page.render(found.document), encoding="utf-8")
    opened = Opened(browser, file, 1440, "dark")
    opened.drawn("before")
    assert "refused" in opened.page.inner_text("#cards")
    assert "Wildcard" in opened.page.inner_text("#problems")
    assert opened.messages == []
    opened.page.close()


@pytest.mark.slow
def test_network_of_3000_nodes_is_drawn_and_answers(browser: Any, tmp_path: pathlib.Path) -> None:
    """A chain with connections around 6 and 190 nodes, as the page gets it, both before and after."""
    count = 3000
    nodes = [
        {
            **{"name": f"node {number}", "op": "Relu", "domain": "", "id": str(number), "refused": "", "ours": False},
            **{"inputs": [], "outputs": [], "values": [f"v{number}"], "attributes": {}, "why": [], "warnings": []},
            "twins": [number],
        }
        for number in range(count)
    ]
    edges = [[number - 1, number] for number in range(1, count)]
    edges += [[number, number + 6] for number in range(0, count - 6, 6)]
    edges += [[number, number + 190] for number in range(0, count - 190, 200)]
    network = {"nodes": nodes, "edges": edges}
    content = {
        **{"ortconv": "0", "source": "large", "format": "made up", "files": [], "before": network, "after": network},
        "options": {"semantics": "spec", "target": "auto"},
    }
    file = tmp_path / "large.html"
    file.write_text(page.render(content), encoding="utf-8")
    opened = Opened(browser, file, 1440, "light")
    opened.page.wait_for_function("byId('before').textContent.includes('Placing 3,000 nodes')")  # and can be used
    opened.drawn("before", "after")
    opened.page.fill("#find", "node 2500")
    opened.page.press("#find", "Enter")
    assert "node 2500" in opened.page.inner_text("#details")
    opened.page.wait_for_function("views.before.getElementById('n2500').renderedPosition('y') < 900")
    assert opened.messages == []
    opened.page.close()
