"""What the page sends is checked before it is used."""

import json

import pytest

from node.desk.form import Form, Garbage, read_form

DEEP = b"[" * 100_000


@pytest.mark.parametrize(
    "body", [b"", b"x", b"[]", b'"a"', b"{", b"\xff\xfe", b"null", DEEP, b'{"a":' + DEEP]
)
def test_garbage_is_no_form(body):
    with pytest.raises(Garbage, match="a JSON object"):
        read_form(body)


def test_fields_are_what_they_are_asked_as():
    form = read_form(json.dumps({"a": " x ", "b": ["y ", ""], "c": {"k": " v"}, "n": 3, "on": True}).encode())
    assert (form.text("a"), form.exact("a"), form.text("z", "")) == ("x", " x ", "")
    assert (form.texts("b"), form.texts("z")) == (("y", ""), ())
    assert (form.table("c"), form.table("z")) == ({"k": " v"}, None)
    assert (form.whole("n"), form.flag("on"), form.flag("z")) == (3, True, False)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(("text", value) for value in (3, None, [], {}, True, "x" * 70_000)),
        *(("exact", value) for value in (3, None, "x" * 70_000)),
        *(("texts", value) for value in ("x", {}, [3], ["x"] * 1001)),
        *(("table", value) for value in ("x", [], {"a": 3}, {str(place): "" for place in range(1001)})),
        *(("whole", value) for value in (True, 1.5, "3", None)),
        *(("flag", value) for value in ("x", 1, None)),
    ],
    ids=lambda value: str(value)[:12],
)
def test_a_field_of_another_kind_is_refused(kind, value):
    with pytest.raises(Garbage):
        getattr(Form({"a": value}), kind)("a")
