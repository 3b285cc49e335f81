"""The fenced blocks of code in all pages of the repository, and the commands in them."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\S*)[^\n]*\n(?P<body>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL
)
SHELL = ("sh", "bash", "console", "")
_COMMENT = re.compile(r"(?:^|\s)#[^'\"]*$")


class Block(NamedTuple):
    """A block: its page and line, its language, empty if it names none, where it starts in the page, and its text."""

    page: str
    line: int
    language: str
    start: int
    body: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """All pages that git knows, as paths from the root."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return sorted(page for page in listed if (ROOT / page).exists())


def blocks() -> list[Block]:
    """The blocks of all pages, in order. No fence is left over."""
    found = []
    for page in pages():
        text = (ROOT / page).read_text("utf-8")
        of_page = [
            Block(page, text.count("\n", 0, one.start()) + 1, one["language"], one.start(), one["body"])
            for one in FENCE.finditer(text)
        ]
        assert len(re.findall(r"^ *(?:```|~~~)", text, re.MULTILINE)) == 2 * len(of_page), f"{page}: an open fence"
        found += of_page
    return found


def commands(block: Block) -> Iterator[str]:
    """The commands of a block of the shell, without comments; of a dialog those behind a prompt `$ `."""
    text = block.body.replace("\\\n", " ")
    if text.startswith("$ "):
        text = "\n".join(line[2:] for line in text.split("\n") if line.startswith("$ "))
    waiting = ""
    for line in text.split("\n"):
        waiting += line if not waiting else f"\n{line}"
        if waiting.count("'") % 2 == 0:  # else a quoted text goes on
            yield from (one.strip() for one in _COMMENT.sub("", waiting).split(" && ") if one.strip())
            waiting = ""
    assert not waiting, f"{block}: an open quote"
