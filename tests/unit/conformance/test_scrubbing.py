# SPDX-License-Identifier: Apache-2.0
"""Every form of a secret is removed, texts that only look like one stay, and no text takes long."""

from __future__ import annotations

import base64
import html
import json
import re
import time

import pytest

from conformance.scrubbing import _RULES, HIDDEN, scrubbed
from tests.unit.conformance.secret_forms import FORMS, LOOKALIKES


def test_the_lists_are_as_long_as_they_are_said_to_be() -> None:
    assert len(FORMS) >= 55
    assert len(LOOKALIKES) >= 40
    assert all(secret in text for text, secret in FORMS.values())


@pytest.mark.parametrize(("text", "secret"), FORMS.values(), ids=FORMS)
def test_a_secret_is_removed_and_the_text_around_it_stays(text: str, secret: str) -> None:
    whole = f"before it\n{text}\nbehind it"
    found = scrubbed(whole)
    assert secret not in found
    assert HIDDEN in found
    assert found.startswith("before it\n")
    assert found.endswith("\nbehind it")


LINES = [name for name, (text, _) in FORMS.items() if "\n" not in text]


@pytest.mark.parametrize("name", LINES)
def test_a_secret_is_removed_from_a_page_and_from_a_log_in_base64(name: str) -> None:
    text, secret = FORMS[name]
    assert secret not in html.unescape(scrubbed(html.escape(f"log:\n{text}\n")))
    whole = base64.b64encode(f"a log that is long enough\n{text}\n".encode()).decode()
    assert scrubbed(whole) == HIDDEN


@pytest.mark.parametrize("text", LOOKALIKES.values(), ids=LOOKALIKES)
def test_what_only_looks_like_a_secret_stays(text: str) -> None:
    assert scrubbed(text) == text
    assert scrubbed(f"a\n{text}\nb") == f"a\n{text}\nb"
    assert scrubbed(html.escape(text)) == html.escape(text)


def test_json_stays_json() -> None:
    value = {
        "a": json.dumps({"password": 'x "y" z', "name": "kept"}),
        "token": "abcdef12",
        "b": [1],
    }
    found = json.loads(scrubbed(json.dumps(value)))
    assert found["token"] == HIDDEN
    assert json.loads(found["a"]) == {"password": HIDDEN, "name": "kept"}
    assert found["b"] == [1]


REPEATED = (
    "a",
    "--",
    "-a",
    "password",
    "\\",
    "\\n",
    ":",
    "name: ",
    "curl -u",
    "mysql -p ",
    "-----BEGIN A-----\n",
    '"',
    "://a:",
    "md5 neighbor ",
    'token: "',
    "a.b:1234:",
    " ",
    "\n",
    "A",
    "eyJ",
    "value: a ",
    "password: |\n x",
    "user a b ",
    "--token ",
    "a:b@",
    "cookie: a",
    "&sig=",
    "a_b-",
    "token&#34;",
    '\\"',
    "- ",
    'auth"',
    "aQ~",
    "\n  password: a",
)


@pytest.mark.parametrize("part", REPEATED)
def test_no_text_of_a_cluster_holds_up_the_report(part: str) -> None:
    text = (part * 30_000)[:30_000]
    began = time.process_time()
    scrubbed(text)
    assert time.process_time() - began < 5


CONTINUED = (
    ("cookie: ", " "),
    ("cookie: [", "\n"),
    ("authorization: ", " "),
    ("Authorization: [", "\t"),
    ("a:b@", "-"),
    ("a:b@", "a."),
    ("token", " "),
    ("password: ", "\\"),
)


@pytest.mark.parametrize(("begin", "part"), CONTINUED)
def test_nothing_that_follows_a_name_holds_up_the_report(begin: str, part: str) -> None:
    began = time.process_time()
    scrubbed(begin + part * (100_000 // len(part)))
    assert time.process_time() - began < 3


def test_a_header_whose_value_stands_far_behind_it_is_scrubbed() -> None:
    assert "Zk9pQ2" not in scrubbed(f"Authorization: {' ' * 300}[ 'Token Zk9pQ2aaaa']")
    assert "Zk9pQ2" not in scrubbed(f"Set-Cookie: {' ' * 300}sid=Zk9pQ2aaaa")


def test_no_rule_repeats_a_group_possessively() -> None:
    # Python before 3.11.5 matches such groups wrongly, as Debian 12's 3.11.2 does.
    wrong = re.compile(r"(?<!\\)\)(?:[*+?]|\{[\d,]+\})\+")
    assert wrong.search(r"(?:a|b){1,9}+c")
    assert [pattern.pattern for _, pattern in _RULES if wrong.search(pattern.pattern)] == []
