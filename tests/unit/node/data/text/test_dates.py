import pytest

from node.data.text.dates import day_reader, days, hours
from node.data.text.month_names import NAMES
from node.task.dialect import MONTHS
from tests.unit.node.cases import cases


@cases("""
    order => day => words
    => 1.0 => 1970-01-02 | 1970/1/2
    => 1.25 => 1970.01.02 06:00
    => 1.5 => 1970-01-02T12:00Z
    => None => 02.01.1970
    day-first => 1.0 => 02.01.1970 | 2/1/1970 | 2-1-1970 | 02.01.70 | 1970-01-02
    day-first => 1.75 => 02.01.1970, 18:00 Uhr
    day-first => 35794.0 => 01.01.68
    day-first => None => 1/13/1970 | 31.02.2023 | 2/1-1970 | 2/1/970 | 2/1/1970 25:00 | 2/1/1970 noon | 1.5 |
        \uff12/1/1970
    month-first => 1.0 => 1/2/1970 12:00:00 am | 02.01.1970
    month-first => 1.5 => 1/2/1970 12:00 PM
    month-first => None => 13/1/1970 | 1/2/1970 13:00 PM
""")
def test_dates(order, day, words):
    assert {str(day_reader(order or None)(word)) for word in words.split(" | ")} == {day}
    assert day_reader(None) is days


@cases("""
    months => day => words
    english => 1.0 => 2 Jan 1970 | 02-JAN-70 | 02JAN1970 | January 2, 1970 | 2nd of January 1970 | 1970-Jan-02
        | 1970-01-02
    english => 1.5 => 02JAN1970:12:00:00
    english => 1.75 => Jan. 2nd, 1970 6:00 PM
    english => None => 31 Feb 2023 | 32 Jan 1970 | 2 Mai 1970 | 2 January | January 1970 | 2 Jan 970 | 2 Jan
        1970 noon | 2 Jan 1970 25:00 | 2 Janet 1970 | 2.1.1970
    german => 1.0 => 2. Januar 1970
    german => 1.5 => 2. J\u00e4nner 1970, 12:00 Uhr
    german => 59.0 => 1. M\u00e4rz 1970 | 1. Ma\u0308rz 1970 | 1.M\u00e4r.1970 | 1. Mrz. 70
    german => 334.0 => 1-DEZ-70
    german => None => 1 Dec 1970
    french => 1.0 => 2 janv. 1970
    french => 32.0 => 2 f\u00e9vr. 1970
    french => 212.0 => 1er ao\u00fbt 1970 | 1 AOUT 1970
    spanish => 0.0 => 1\u00ba de enero de 1970
    spanish => 1.0 => 2 de enero de 1970 | 2 de enero del 1970 | 2/ene/1970
    italian => 1.0 => 2 gennaio 1970
    italian => 152.0 => 2-giu-'70
    italian => None => \u0662 gennaio 1970
""")
def test_dates_with_names_of_months(months, day, words):
    read = day_reader(None, months)
    assert {str(read(word)) for word in words.split(" | ")} == {day}
    assert read("2" + " " * 60 + "gennaio 1970") is None


@pytest.mark.parametrize("language", MONTHS)
def test_each_language_has_twelve_months(language):
    read = day_reader(None, language)
    assert sorted(set(NAMES[language].values())) == list(range(1, 13))
    for name, month in NAMES[language].items():
        assert read(f"1 {name.upper()} 2023") == days(f"2023-{month:02}-01")


def test_no_name_means_different_months_in_two_languages():
    numbers = {(name, month) for names in NAMES.values() for name, month in names.items()}
    assert len({name for name, _ in numbers}) == len(numbers)


def test_numbers_keep_their_order_beside_names():
    assert day_reader("month-first", "english")("1/2/1970") == 1.0
    assert day_reader("day-first", "english")("2/1/1970") == 1.0
    assert day_reader(None, "english")("2/1/1970") is None


@cases("""
    hour => words
    0.0 => 0:00
    14.5 => 14:30 | 2:30 PM
    14.51 => 14:30:36
    0.25 => 12:15am
    10.25 => 10:15:00.000000
    None => 24:00 | 10:60 | 10 | -1:30
""")
def test_times_of_day(hour, words):
    found = (hours(word) for word in words.split(" | "))
    assert {str(value and round(value, 6)) for value in found} == {hour}
