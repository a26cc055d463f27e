"""The error for an unknown name: what was given, what is allowed, the nearest."""

from __future__ import annotations

from adept.names import unknown_name


def test_lists_the_names_and_the_nearest():
    error = unknown_name("colour", "gren", ["red", "green", "blue"])
    assert str(error) == "unknown colour 'gren', expected one of red, green, blue; did you mean 'green'?"


def test_case_does_not_matter_and_the_name_is_spelled_as_allowed():
    assert "did you mean 'DoorKey-6x6'?" in str(unknown_name("task", "doorkey-6X6", ["LavaGapS7", "DoorKey-6x6"]))


def test_no_hint_where_nothing_is_near():
    assert str(unknown_name("colour", "xyzzy", ["red"])) == "unknown colour 'xyzzy', expected one of red"


def test_no_names_at_all():
    assert str(unknown_name("option", "a", [])) == "unknown option 'a', there are none"


def test_a_long_list_is_cut_to_the_nearest():
    names = [f"task-{number:03d}" for number in range(200)]
    message = str(unknown_name("task", "tusk-007", names))
    assert message.startswith("unknown task 'tusk-007', expected one of 200 names, such as task-007, ")
    assert message.endswith("; did you mean 'task-007'?")
    assert len(message) < 200
    assert str(unknown_name("task", "!", names)) == "unknown task '!', expected one of 200 names"
