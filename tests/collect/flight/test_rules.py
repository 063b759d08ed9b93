"""What --when understands, and how rows and open ranges are held against it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tops_kit.collect.flight.plan import FlightPlan, path_of, safe_label
from tops_kit.collect.flight.rules import parse, time_ns
from tops_kit.collect.flight.triggers import OpenRange, Triggers
from tops_kit.errors import UserError

MS = 10**6


def triggers(*when: str, limit: int = 10, cooldown_s: float = 0.0) -> Triggers:
    return Triggers(FlightPlan(30, "a", when=when, when_limit=limit, cooldown_s=cooldown_s))


def rows(*each: tuple[str, int], domain: Any = "", process_id: int = 7) -> dict[str, Any]:
    names = pa.array([name for name, _ in each]).dictionary_encode()
    return {
        "start_ns": np.arange(len(each), dtype=np.int64) * 10**9,
        "duration_ns": np.array([length for _, length in each], np.int64),
        "name": names,
        "domain": domain,
        "process_id": process_id,
    }


@pytest.mark.parametrize(
    ("text", "ns"),
    [("500ms", 500 * MS), ("1.5 s", 1500 * MS), ("3", 3000 * MS), ("2m", 120000 * MS), ("7us", 7000)],
)
def test_times(text: str, ns: int) -> None:
    assert time_ns(text) == ns


@pytest.mark.parametrize("text", ["", "a", "-1s", "1 day", "1e3s", "nan"])
def test_what_is_no_time(text: str) -> None:
    assert time_ns(text) is None


def test_a_rule_has_a_name_a_domain_and_a_time() -> None:
    rule = parse("  GET /orders > 500ms ")
    assert (rule.name, rule.domain, rule.over_ns) == ("GET /orders", "", 500 * MS)
    rule = parse("step@net > 2s")
    assert (rule.name, rule.domain) == ("step", "net")
    assert parse(r"a\@b > 1").name == "a@b"
    assert parse("a@default > 1").domain == ""
    assert parse("a > b > 1s").name == "a > b"


@pytest.mark.parametrize("text", ["", "GET", "GET >", "> 1s", "GET > soon", "@net > 1s", "GET < 1s"])
def test_what_is_no_rule_is_one_line(text: str) -> None:
    with pytest.raises(UserError, match="--when") as error:
        parse(text)
    assert "\n" not in str(error.value)


def test_rows_are_held_against_name_domain_and_length() -> None:
    held = triggers("GET /* > 500ms")
    assert not held.see("tx", rows(("GET /a", 400 * MS), ("POST /a", 900 * MS)))
    assert not held.see("kernel", rows(("GET /a", 900 * MS)))
    assert not held.see("tx", rows(("GET /a", 900 * MS), domain="db"))
    assert not held.see("tx", rows(("GET /a", 500 * MS)))
    assert held.see("tx", rows(("x", 1), ("GET /a", 900 * MS)))
    (request,) = held.take()
    assert (request.who, request.label) == ("trigger", "GET /a")
    assert request.text == "GET /a took 900.0 ms (GET /* > 500ms)"
    assert held.take() == []
    domains = pa.array(["db", None]).dictionary_encode()
    found = triggers("q@db > 1ms")
    assert found.see("tx", rows(("q", 2 * MS), ("q", 2 * MS), domain=domains))
    assert found.held_back == 0


def test_a_star_is_any_text_and_nothing_else_is_special() -> None:
    held = triggers("a.[b]*c? > 1ns")
    assert not held.see("tx", rows(("a.bxc?", 9), ("a.[b]xcd", 9), ("xa.[b]c?", 9)))
    assert held.see("tx", rows(("a.[b]\nxc?", 9)))


def test_limit_and_cooldown_hold_back() -> None:
    held = triggers("a > 1ns", limit=2)
    for _ in range(5):
        held.see("tx", rows(*[("a", 9)] * 10))
    assert len(held.take()) == 2 and held.over
    assert held.held_back == 2 * 9 + 3 * 10
    cool = triggers("a > 1ns", cooldown_s=3600)
    assert cool.see("tx", rows(("a", 9))) and not cool.see("tx", rows(("a", 9)))
    assert len(cool.take()) == 1 and cool.held_back == 1


def test_an_open_range_counts_once() -> None:
    held = triggers("a > 1s")
    one = OpenRange(7, 5 * 10**9, 2 * 10**9, "a", "")
    assert held.see_open([one, OpenRange(7, 1, 10**10, "b", "")])
    assert not held.see_open([one])
    columns = rows(("a", 3 * 10**9))
    columns["start_ns"][0] = one.begin_ns + 100  # as exact as clocks are
    assert not held.see("tx", columns)
    columns["process_id"] = 8
    assert held.see("tx", columns)
    assert next(request.text for request in held.take()) == "a is open for 2.00 s (a > 1s)"


def test_names_of_snapshots() -> None:
    assert safe_label("GET /orders/../x") == "GET-orders-..-x"
    assert safe_label("../..") == safe_label("") == safe_label("///") == "snapshot"
    assert len(safe_label("x" * 999)) == 60
    assert str(path_of("/a/s-%s%n", "b c", 3)) == "/a/s-b-c3.topsprof"
    assert str(path_of("/a/100%%-%n.topsprof", "", 1)) == "/a/100%-1.topsprof"
    assert [str(path_of("/a/one", "", n)) for n in (1, 2)] == ["/a/one.topsprof", "/a/one-2.topsprof"]
