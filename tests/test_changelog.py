"""CHANGELOG.md as Keep a Changelog has it: versions, groups, topics, and entries that are one line each."""

import re
from collections import Counter
from datetime import date
from itertools import pairwise
from pathlib import Path

import service

TEXT = (Path(__file__).parents[1] / "CHANGELOG.md").read_text("utf-8")
GROUPS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
TOPICS = (
    "Ratings, events and items", "Lists", "Models and training", "GPUs and several machines", "Files and commands",
    "Service and storage", "Keys and limits", "Console and monitoring", "Clients", "Deployment", "Project",
)  # fmt: skip
LONGEST_ENTRY = 120
LONGEST_LIST = 40  # entries under one heading; a longer group has topics


def releases() -> dict[str, str]:
    """Heading of each version, the newest first -> what stands below it."""
    parts = re.split(r"^## (.*)\n", TEXT, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_newest_version_is_that_of_the_package():
    unreleased, newest, *_ = releases()
    assert unreleased == "[Unreleased]"
    assert newest.partition(" - ")[0] == f"[{service.__version__}]"


def test_versions_have_a_date_and_stand_in_order():
    headings = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - (\S+)", one) for one in list(releases())[1:]]
    assert all(headings)
    released = [(tuple(map(int, one.groups()[:3])), date.fromisoformat(one[4])) for one in headings if one]
    assert all(newer[0] > older[0] and newer[1] >= older[1] for newer, older in pairwise(released))


def test_groups_are_known_and_stand_in_order_once():
    for version, below in releases().items():
        groups = re.findall(r"^### (.*)$", below, re.MULTILINE)
        assert groups == [one for one in GROUPS if one in groups], version


def test_every_entry_is_one_line():
    for version, below in releases().items():
        _, *groups = re.split(r"^####? .*\n", below, flags=re.MULTILINE)
        for line in (line for group in groups for line in group.splitlines() if line):
            assert re.fullmatch(r"\* \S.*\.", line), f"{version}: {line}"
            assert len(line) <= LONGEST_ENTRY, f"{version}: {line}"


def test_long_groups_have_topics_in_order():
    for version, below in releases().items():
        for group in re.split(r"^### ", below, flags=re.MULTILINE)[1:]:
            heads = re.findall(r"^#### (.*)$", group, re.MULTILINE)
            assert heads == [one for one in TOPICS if one in heads], version
            lists = re.split(r"^#### .*\n", group, flags=re.MULTILINE)
            assert max(text.count("\n* ") for text in lists) < LONGEST_LIST, f"{version}: {group[:20]}"


def test_no_entry_stands_twice_in_a_version():
    for version, below in releases().items():
        beginnings = Counter(line[:50] for line in below.splitlines() if line.startswith("* "))
        assert {line for line, n in beginnings.items() if n > 1} == set(), version
