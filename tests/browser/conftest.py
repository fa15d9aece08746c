"""A real service over a real store, and Debian's chromium that looks at it."""

import json
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium")
PICTURES = Path(__file__).parents[2] / "docs" / "images"
LARGEST_PICTURE = 300_000  # bytes
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
VIEWS = [(width, theme) for width in (390, 1440) for theme in ("light", "dark")]


def pytest_addoption(parser):
    parser.addoption("--pictures", action="store_true", help="Take the pictures of docs/images anew.")


def pytest_collection_modifyitems(items):
    """Skip, with a reason, where there is nothing to look with."""
    here = Path(__file__).parent
    reason = None
    if CHROMIUM is None:
        reason = "there is no chromium; on Debian: apt-get install chromium"
    for library in ("playwright", "axe_playwright_python", "uvicorn"):
        try:
            __import__(library)
        except ImportError:
            reason = f"there is no {library}; make test-browser installs it"
    if reason:
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


class Service:
    """`tessella serve` as a process of its own."""

    def __init__(self, store, *options):
        self._command = [sys.executable, "-m", "tessella", "serve", str(store), *options]
        self.process = None
        self.start()

    def start(self, port=0):
        """Start it, and wait until it says where it is."""
        command = [*self._command, "--port", str(port)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
        line = self.process.stdout.readline()
        found = re.search(r"http://[\d.]+:(\d+)", line)
        assert found, f"the service did not start: {line!r}"
        self.address, self.port = found[0], int(found[1])

    def stop(self):
        """End it as Ctrl+C would."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)
        self.process.stdout.close()

    def ask(self, method, path, body=None):
        """What the service answers to a request, as JSON."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310
            self.address + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return json.load(answer)


@contextmanager
def serving(store, *options):
    """A service, until it is no longer needed."""
    service = Service(store, *options)
    try:
        yield service
    finally:
        service.stop()


@pytest.fixture(scope="session")
def stores(tmp_path_factory):
    """A folder with stores: movies.db has two generations, large.db ids beyond 2^53, planned.db a plan that was measured,
    tiles.db tiles, and empty.db nothing."""
    from tessella.store import Store  # noqa: PLC0415

    from .catalogue import fill  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("stores")
    fill(folder / "movies.db")
    fill(folder / "large.db", 400, 60, large_ids=True, generations=("only",))
    fill(folder / "planned.db", 12_000, 300, generations=("only",))
    fill(folder / "tiles.db", 12_000, 300, generations=("only",), method="tiles")
    with Store.open(folder / "empty.db"):
        pass
    return folder


@pytest.fixture(scope="session")
def movies(stores):
    """A service that only reads."""
    with serving(stores / "movies.db") as service:
        yield service


@pytest.fixture
def writable(stores, tmp_path):
    """A service over a copy of the movies that may be changed."""
    shutil.copy(stores / "movies.db", tmp_path / "movies.db")
    with serving(tmp_path / "movies.db", "--writable") as service:
        yield service


@pytest.fixture(scope="session")
def chromium():
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(params=VIEWS, ids=lambda view: f"{view[0]}-{view[1]}")
def page(chromium, request):
    """A page of one width and theme. What it complains of, and what it asks of others, is an error."""
    width, theme = request.param
    with _page(chromium, width, theme) as opened:
        yield opened


@pytest.fixture
def wide(chromium):
    """A page of a desk, for what does not depend on width or theme."""
    with _page(chromium, 1440, "light") as opened:
        yield opened


@contextmanager
def _page(chromium, width, theme):
    context = chromium.new_context(
        viewport={"width": width, "height": 900 if width > 500 else 844}, color_scheme=theme, reduced_motion="reduce"
    )
    page = context.new_page()
    page.set_default_timeout(15_000)
    wrong, asked = [], set()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on(
        "console",
        lambda told: (
            wrong.append(told.text)
            if told.type == "error" and "status of" not in told.text and "ERR_CONNECTION" not in told.text
            else None
        ),
    )
    page.on(
        "request",
        lambda sent: asked.add(urllib.request.urlparse(sent.url).netloc) if sent.url.startswith("http") else None,
    )
    page.view = f"{width}-{theme}"
    yield page
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "the page is wider than the screen"
    context.close()
    assert not wrong
    assert len(asked) == 1, f"the page asked other hosts: {asked}"


@pytest.fixture
def accessible():
    """Hold a page against axe-core."""
    from axe_playwright_python.sync_playwright import Axe  # noqa: PLC0415

    def check(page):
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()

    return check


@pytest.fixture
def picture(request):
    """Keep a picture of a page in some views, if pictures are wanted."""

    def take(page, name, *views):
        if page.view in views and request.config.getoption("--pictures", default=False):
            page.evaluate("scrollTo(0, innerWidth < 500 ? document.querySelector('.answer').offsetTop - 16 : 0)")
            page.wait_for_timeout(700)
            path = PICTURES / f"console-{name}-{page.view}.png"
            page.screenshot(path=path)
            assert path.stat().st_size < LARGEST_PICTURE

    return take
