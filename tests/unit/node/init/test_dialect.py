"""What node.init finds out about how a file is written, what it says, and what the schema then reads."""

import pytest

from node.data.reading import read_with_schema
from node.init.asked import NOTHING_ASKED, Asked
from node.init.dialect import find_dialect
from node.init.look import look
from node.task.dialect import PLAIN, Dialect
from node.task.scaling import by_rows
from tests.own_data import frame, told
from tests.unit.node.cases import cases

ROWS = 60


def text(separator=";", **columns):
    """Makes a CSV of 60 rows; each column is a list that repeats, or a function of the row's number."""
    lines = [separator.join((*columns, "y"))]
    for row in range(ROWS):
        cells = [make(row) if callable(make) else make[row % len(make)] for make in columns.values()]
        lines.append(separator.join((*cells, "ja" if row % 3 else "nein")))
    return "\n".join(lines) + "\n"


def found(tmp_path, asked=NOTHING_ASKED, separator=";", **columns):
    return find_dialect(frame(tmp_path, text(separator, **columns)), asked)


def looked(tmp_path, asked=NOTHING_ASKED, separator=";", **columns):
    path = tmp_path / "rows.csv"
    path.write_text(text(separator, **columns))
    return look(path, "y", "auto", (), by_rows, asked)


def column(look, name):
    return next(column for column in look.schema.columns if column.name == name)


def remark(look, name):
    return next(entry.remark for entry in look.report.entries if entry.column == name)


@cases("""
    cells => marks
    1.5 | 2 => point
    1,5 | 2 => comma
    1,234.5 | 2 => point comma
    1.234.567 | 2 => comma point
    1 234,5 | 2 => comma space
    1\u202f234 | 2 => point space
    1'234.5 | 2 => point apostrophe
    0,125 | 7 => comma
    1234,567 | 7 => comma
    1.234 | 5.678 | 9.012 | 950 => comma point
    1.234 | 5.678 | 9.012 | 9500 => point
    east | west 1,5 => point
""")
def test_marks_by_one_column(tmp_path, cells, marks):
    assert found(tmp_path, a=cells.split(" | ")).dialect == Dialect(*marks.split())


def test_the_file_decides_for_a_column_that_cannot(tmp_path):
    both = {"a": ["1.234", "5.678"], "b": ["1,5", "2,5"]}
    assert found(tmp_path, **both).dialect == Dialect("comma", "point")
    assert found(tmp_path, a=both["a"]).dialect == PLAIN
    assert found(tmp_path, a=["1,234", "5,678"]).dialect == Dialect("comma")
    quoted = found(tmp_path, separator=",", a=['"1,234"', '"5,678"'])
    assert quoted.dialect == Dialect("point", "comma"), "between commas, quoted ones are for thousands"


def test_what_nothing_decides_is_said_with_the_option(tmp_path):
    said = found(tmp_path, a=["1.234", "5.678"]).remarks
    assert said == (
        (
            "column 'a': nothing in the file says whether the point in '1.234' is for decimals or for "
            "thousands; it is read as a decimal mark; --thousands point says otherwise"
        ),
    )
    asked = found(tmp_path, Asked(thousands="point"), a=["1.234", "5.678"])
    assert (asked.dialect.decimal, asked.dialect.thousands) == ("comma", "point")
    assert not any("nothing in the file" in line for line in asked.remarks)


def test_a_column_that_contradicts_the_file_has_its_own_mark(tmp_path):
    rows = {"a": ["5,3", "6,4"], "b": ["1,5", "2,5"], "c": ["5.3", "1,234.5"]}
    one = looked(tmp_path, **rows)
    assert column(one, "c").decimal == "point"
    assert column(one, "a").decimal is None
    assert "column 'c' has decimals with a point, unlike the others" in one.report.remarks
    assert column(one, "c").mean == pytest.approx((5.3 + 1234.5) / 2, rel=0.02)


@cases("""
    cells => order => mean
    25.07.2023 | 27.07.2023 => day-first => 19564.0
    25/7/2023 | 27/7/2023 => day-first => 19564.0
    7/25/2023 | 7/27/2023 12:00 => month-first => 19564.25
    2023-07-25T10:00Z | 2023-07-27 10:00 => => 19564.4
    2023/07/25 | 2023.07.27 => => 19564.0
    25.07.23 | 27.07.23 => day-first => 19564.0
""")
def test_dates(tmp_path, cells, order, mean):
    one = looked(tmp_path, a=cells.split(" | "), b=["1", "2", "3"])
    assert (one.schema.written.dates or "", column(one, "a").kind) == (order, "date")
    assert column(one, "a").mean == pytest.approx(float(mean), abs=0.1)


def test_dates_that_could_have_both_orders(tmp_path):
    both = {"a": ["3/4/2023", "5/6/2023"], "b": ["1", "2", "3"]}
    one = looked(tmp_path, **both)
    assert remark(one, "a") == (
        "dates such as '3/4/2023', and nothing says whether day or month comes first: say --dates "
        "day-first or month-first"
    )
    said = looked(tmp_path, Asked(dates="month-first"), **both)
    assert column(said, "a").kind == "date"
    by_comma = looked(tmp_path, **both, c=["1,5", "2,5"])
    assert by_comma.schema.written.dates == "day-first"
    other = looked(tmp_path, **both, c=["13.4.2023", "14.4.2023"])
    assert other.schema.written.dates == "day-first"


def test_a_column_with_the_other_order_of_dates(tmp_path):
    one = looked(
        tmp_path,
        a=["25.07.2023", "26.07.2023"],
        b=["28/7/2023"] * 2 + ["1/7/2023"],
        c=["7/25/2023", "1/2/2023"],
    )
    assert one.schema.written.dates == "day-first"
    assert column(one, "c").dates == "month-first"


@cases("""
    cells => language
    25 Jul 2023 | 27 May 2023 => english
    July 25, 2023 | July 27, 2023 => english
    25-JUL-23 | 27-MAY-23 => english
    25JUL2023 | 27DEC2023 => english
    25. Juli 2023 | 27. M\u00e4rz 2023 => german
    25.Okt.2023 | 27.Dez.2023 => german
    25 juil. 2023 | 27 ao\u00fbt 2023 => french
    25 de julio de 2023 | 27 de enero de 2023 => spanish
    25 lug 2023 | 27 gen 2023 => italian
""")
def test_dates_with_names_of_months(tmp_path, cells, language):
    one = looked(tmp_path, a=cells.split(" | "), b=["1", "2", "3"])
    assert (one.schema.written.months, one.schema.written.dates) == (language, None)
    assert column(one, "a").kind == "date"
    rows = read_with_schema(tmp_path / "rows.csv", one.schema)
    assert len(set(rows.x[:, 0].tolist())) == 2
    said = f"names of months in {language.capitalize()} (1 column)"
    assert any(said in line for line in one.report.remarks)


def test_names_that_several_languages_have_are_read_beside_the_decimal_mark(tmp_path):
    both = {"a": ["25 Nov 2023", "27 Apr 2023"]}
    assert found(tmp_path, **both, b=["1.5", "2.5"]).dialect.months == "english"
    assert found(tmp_path, **both, b=["1,5", "2,5"]).dialect.months == "german"
    assert found(tmp_path, Asked(months="italian"), **both, b=["1.5", "2.5"]).dialect.months == "italian"


def test_the_file_decides_the_language_and_the_odd_column_is_said(tmp_path):
    english = [f"{day} {name} 2023" for day in (1, 2) for name in ("Jan", "May", "Oct", "Dec")]
    one = looked(tmp_path, a=english, b=["3 Mai 2023", "4 Okt 2023", "5 Dez 2023"])
    assert one.schema.written.months == "english"
    assert (
        "column 'b' has names of months that are German, and not English as in the task: write them alike, "
        "or say --months german"
    ) in one.report.remarks
    assert column(one, "b").kind == "category"


def test_no_value_among_dates_with_names_and_years_of_two_digits(tmp_path):
    one = looked(tmp_path, a=["25-Jul-23", "-", "27-May-23", "29-May-23"], b=["1", "2", "3"])
    assert (one.schema.written.missing, column(one, "a").missing) == (("-",), True)
    assert "years of two digits mean 1969 to 2068, in 'a'" in one.report.remarks
    texts = looked(tmp_path, a=["room 25 mar", "bed 3 may 20", "may"], b=["1 May 23 x", "25 Foo 2023"])
    assert texts.schema.dialect is None


def test_times_of_day(tmp_path):
    one = looked(tmp_path, a=["10:15", "2:30 PM", "23:59:30"], b=["1", "2", "3"])
    assert (column(one, "a").kind, column(one, "a").low, column(one, "a").high) == ("time", 0.0, 24.0)


def test_words_for_no_value(tmp_path):
    lab = ["5,3", "-", "6,1", "k.A.", "7,2", "."]
    one = looked(tmp_path, a=lab, rhesus=["+", "-"], ward=["Ost", "n.a.", "West"])
    assert one.schema.written.missing == ("-", ".", "k.A.", "n.a.")
    assert column(one, "a").missing
    assert column(one, "rhesus").values == ("+", "-")
    assert column(one, "ward").values == ("Ost", "West")
    said = "no value: '-' (40 cells), '.' (10 cells), 'k.A.' (10 cells)"
    assert any(said in line for line in one.report.remarks)
    signs = looked(tmp_path, a=["+", "-", "++"], b=["1", "2", "3"])
    assert (signs.schema.dialect, column(signs, "a").values) == (None, ("+", "++", "-"))


def test_9999_means_no_value_only_if_somebody_says_so(tmp_path):
    cells = {"a": lambda row: "9999" if row % 10 == 0 else f"{row % 7}"}
    one = looked(tmp_path, **cells)
    assert remark(one, "a") == "9999 in 6 cells, far from all others: --missing 9999 if it means no value"
    said = looked(tmp_path, Asked(missing=("9999",)), **cells)
    assert column(said, "a").missing
    assert column(said, "a").mean < 7


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (
            lambda row: "<0,3" if row % 4 == 0 else "0.1.2" if row == 1 else f"{row},5",
            "15 cells such as '<0,3' have a sign such as < before the number and 1 cell such as '0.1.2' have",
        ),
        (
            lambda row: f"{row},5 {('mg', 'g')[row % 2]}",
            "60 cells such as '0,5 mg' have a unit or a sign after the number: write the value alone, or",
        ),
        (
            lambda row: "neg" if row % 12 == 0 else f"{row}.5.3" if row % 12 == 1 else f"{row},5",
            "5 cells such as 'neg' cannot be read as one and 5 cells such as '1.5.3' have other marks",
        ),
    ],
)
def test_what_looks_like_numbers_is_said_with_reasons_and_remedies(tmp_path, odd, why):
    one = looked(tmp_path, a=odd, b=["1", "2", "3"])
    said = remark(one, "a")
    assert said.startswith(f"looks like numbers, but {why}")
    other = (
        ": --missing WORD for a word that means no value; mend or empty the others; --decimal and --thousands"
    )
    assert (other in said) == ("'neg'" in why)


def test_a_category_of_few_numbers_with_marks_is_said_so_too(tmp_path):
    one = looked(tmp_path, a=["<0,3", "5,1", "8,5", "neg"], b=["1", "2", "3"])
    assert column(one, "a").kind == "category"
    assert remark(one, "a").startswith(
        "looks like numbers, but 15 cells such as '<0,3' have a sign such as <"
    )
    codes = looked(tmp_path, a=["10", "9", "x"], b=["1", "2", "3"])
    assert remark(codes, "a") == ""


def test_the_schema_reads_what_was_found(tmp_path):
    """The rows of the file, encoded by the schema, are those of the same file in plain notation."""
    german = {
        "lab": ["5,3", "1.234,5", "k.A.", "0,25"],
        "seen": ["25.07.2023", "01.08.2023", "-", "03.08.2023"],
        "clock": ["10:30", "14:15", "0:00"],
        "smoker": ["ja", "nein", "n.a."],
    }
    plain = {
        "lab": ["5.3", "1234.5", "", "0.25"],
        "seen": ["2023-07-25", "2023-08-01", "", "2023-08-03"],
        "clock": ["10:30", "14:15", "00:00"],
        "smoker": ["yes", "no", ""],
    }
    x = []
    for columns, separator in ((german, ";"), (plain, ",")):
        one = looked(tmp_path, separator=separator, **columns)
        rows = read_with_schema(tmp_path / "rows.csv", one.schema)
        x.append((rows.x, [column.kind for column in one.schema.columns]))
    assert x[0][1] == x[1][1] == ["number", "date", "time", "boolean"]
    assert (x[0][0] == x[1][0]).all()


def test_text_of_windows_and_utf_16(tmp_path):
    for encoding, kept in (("cp1252", "cp1252"), ("utf-16", None), ("utf-8", None)):
        path = tmp_path / "rows.csv"
        path.write_text(text(a=["1,5", "2,5"], größe=["hoch", "n\u00f6rdlich"]), encoding=encoding)
        one = look(path, "y", "auto", (), by_rows)
        assert one.schema.written.encoding == kept
        assert column(one, "gr\u00f6\u00dfe").values == ("hoch", "n\u00f6rdlich")
        assert any(f"{encoding} text" in line for line in one.report.remarks) is (encoding != "utf-8")


def test_an_encoding_that_is_named(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(text(a=["1", "2"], b=["\u0142\u00f3d\u017a", "krak\u00f3w"]), encoding="cp1250")
    one = look(path, "y", "auto", (), by_rows, Asked(encoding="cp1250"))
    assert column(one, "b").values == ("krak\u00f3w", "\u0142\u00f3d\u017a")
    path.write_bytes(b"a;b;y\n\x81;1;2\n" * 9)
    assert "it is neither Unicode nor cp1252 text" in told(look, path, "y", "auto", (), by_rows)


def test_options_that_do_not_go_with_images(tmp_path):
    (tmp_path / "scans").mkdir()
    line = told(look, tmp_path / "scans", None, "auto", (), by_rows, Asked(missing=("x",)))
    assert line == "--missing 'x' is refused: images have no cells; leave the option out"
