"""The documentation site: it has every page, its links lead somewhere, and nothing is loaded from another host."""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import yaml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CONFIG = ROOT / "mkdocs.yml"
BUILD_SECONDS = 300  # on a busy machine; 3 s on an idle one
MAX_PICTURE_BYTES = 100_000
OTHER_HOST = re.compile(r"(?:[a-z][a-z+.-]*:)?//", re.IGNORECASE)
# Elements for which the scripts of the theme load a library from a public host.
NEEDS_A_LIBRARY = {"mermaid", "glightbox"}


class Page(HTMLParser):
    """What a page of the site links to, loads and names."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.ids: set[str] = set()
        self.classes: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given["id"]} if "id" in given else set()
        self.classes |= set(given.get("class", "").split())
        target = {given[name] for name in ("href", "src", "data") if name in given}
        (self.links if tag == "a" else self.loads).update(target)
        self.loads |= set(re.findall(r"(\S+)(?: \S+)?(?:,|$)", given.get("srcset", "")))


def sources() -> set[str]:
    return {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def navigation(entries: list) -> list[str]:
    """Every page of `nav`, in its order."""
    found: list[str] = []
    for entry in entries:
        target = next(iter(entry.values())) if isinstance(entry, dict) else entry
        found += navigation(target) if isinstance(target, list) else [target]
    return found


def name_in_site(source: str) -> str:
    """`decisions/README.md` becomes `decisions/index.html`."""
    return re.sub(r"(^|/)README\.md$", r"\1index.md", source).removesuffix(".md") + ".html"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Page]:
    """Name -> page of a site that was built in a folder of its own."""
    pytest.importorskip("zensical", reason="zensical is not installed: run `make install`")
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(DOCS, folder / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(CONFIG, folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    printed = done.stdout + done.stderr
    assert done.returncode == 0, printed
    assert "warning" not in printed.lower(), printed
    built = folder / "site"
    return {path.relative_to(built).as_posix(): Page(path) for path in built.rglob("*.html")}


def test_pictures_are_small_and_shown():
    """A palette of 64 colors is enough for curves: `Image.quantize` of Pillow makes a third of the bytes."""
    texts = "".join(page.read_text("utf-8") for page in DOCS.rglob("*.md"))
    pictures = [picture for kind in ("png", "svg") for picture in DOCS.glob(f"*.{kind}")]
    assert pictures
    assert [picture.name for picture in pictures if f"({picture.name})" not in texts] == []
    assert [picture.name for picture in pictures if picture.stat().st_size > MAX_PICTURE_BYTES] == []


def test_every_page_is_in_the_navigation_once():
    pages = navigation(yaml.safe_load(CONFIG.read_text("utf-8"))["nav"])
    assert sorted(pages) == sorted(sources()), (
        "new pages go into nav of mkdocs.yml; notes into decisions/README.md, then `make docs`"
    )


def test_the_site_has_every_page_and_nothing_but_pages(site):
    assert site.keys() == {name_in_site(source) for source in sources()} | {"404.html"}
    root = site["index.html"].path.parent
    assert not [path.name for path in root.rglob("*") if path.suffix in (".py", ".pyc", ".md")]


def test_links_of_the_site_lead_to_pages_and_headings(site):
    """Headings have other anchors here than on a forge, where tests/test_project.py follows the same links."""
    by_path = {page.path.resolve(): page for page in site.values()}
    followed = 0
    for name, page in site.items():
        for target in page.links:
            path, _, heading = unquote(target).partition("#")
            if not OTHER_HOST.match(target) and not path.startswith("/"):
                there = (page.path.parent / path).resolve() if path else page.path.resolve()
                assert there.is_file(), f"{name}: {target}"
                assert not heading or there not in by_path or heading in by_path[there].ids, f"{name}: {target}"
                followed += 1
    assert followed > len(site)


def test_pages_load_nothing_from_another_host(site):
    loaded = {(name, target) for name, page in site.items() for target in page.loads}
    assert any(target.endswith(".css") for _, target in loaded)
    assert any(target.endswith(".js") for _, target in loaded)
    assert not {(name, target) for name, target in loaded if OTHER_HOST.match(target)}
    assert not {name: page.classes & NEEDS_A_LIBRARY for name, page in site.items() if page.classes & NEEDS_A_LIBRARY}


def test_styles_load_nothing_from_another_host(site):
    styles = list(site["index.html"].path.parent.rglob("*.css"))
    assert styles
    for style in styles:
        named = re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')\s;]+)", style.read_text("utf-8"))
        assert not [target for target in named if OTHER_HOST.match(target)], style.name
