import pytest

from node.data.dates import day_reader, days, hours
from node.data.month_names import NAMES
from node.task.dialect import MONTHS


@pytest.mark.parametrize(
    ("order", "word", "day"),
    [
        (None, "1970-01-02", 1.0),
        (None, "1970-01-02T12:00Z", 1.5),
        (None, "1970/1/2", 1.0),
        (None, "1970.01.02 06:00", 1.25),
        (None, "02.01.1970", None),
        ("day-first", "02.01.1970", 1.0),
        ("day-first", "2/1/1970", 1.0),
        ("day-first", "2-1-1970", 1.0),
        ("day-first", "02.01.70", 1.0),
        ("day-first", "01.01.68", 35794.0),
        ("day-first", "02.01.1970, 18:00 Uhr", 1.75),
        ("day-first", "1970-01-02", 1.0),
        ("month-first", "1/2/1970 12:00 PM", 1.5),
        ("month-first", "1/2/1970 12:00:00 am", 1.0),
        ("month-first", "02.01.1970", 1.0),
        ("day-first", "1/13/1970", None),
        ("month-first", "13/1/1970", None),
        ("day-first", "31.02.2023", None),
        ("day-first", "2/1-1970", None),
        ("day-first", "2/1/970", None),
        ("day-first", "2/1/1970 25:00", None),
        ("day-first", "2/1/1970 noon", None),
        ("day-first", "1.5", None),
        ("day-first", "\uff12/1/1970", None),
        ("month-first", "1/2/1970 13:00 PM", None),
    ],
)
def test_dates(order, word, day):
    assert day_reader(order)(word) == day


@pytest.mark.parametrize(
    ("months", "word", "day"),
    [
        ("english", "2 Jan 1970", 1.0),
        ("english", "02-JAN-70", 1.0),
        ("english", "02JAN1970", 1.0),
        ("english", "02JAN1970:12:00:00", 1.5),
        ("english", "January 2, 1970", 1.0),
        ("english", "Jan. 2nd, 1970 6:00 PM", 1.75),
        ("english", "2nd of January 1970", 1.0),
        ("english", "1970-Jan-02", 1.0),
        ("english", "1970-01-02", 1.0),
        ("english", "31 Feb 2023", None),
        ("english", "32 Jan 1970", None),
        ("english", "2 Mai 1970", None),
        ("english", "2 January", None),
        ("english", "January 1970", None),
        ("english", "2 Jan 970", None),
        ("english", "2 Jan 1970 noon", None),
        ("english", "2 Jan 1970 25:00", None),
        ("english", "2 Janet 1970", None),
        ("english", "2.1.1970", None),
        ("german", "2. J\u00e4nner 1970, 12:00 Uhr", 1.5),
        ("german", "2. Januar 1970", 1.0),
        ("german", "1. M\u00e4rz 1970", 59.0),
        ("german", "1. Ma\u0308rz 1970", 59.0),
        ("german", "1.M\u00e4r.1970", 59.0),
        ("german", "1. Mrz. 70", 59.0),
        ("german", "1-DEZ-70", 334.0),
        ("german", "1 Dec 1970", None),
        ("french", "1er ao\u00fbt 1970", 212.0),
        ("french", "1 AOUT 1970", 212.0),
        ("french", "2 janv. 1970", 1.0),
        ("french", "2 f\u00e9vr. 1970", 32.0),
        ("spanish", "2 de enero de 1970", 1.0),
        ("spanish", "2 de enero del 1970", 1.0),
        ("spanish", "1\u00ba de enero de 1970", 0.0),
        ("spanish", "2/ene/1970", 1.0),
        ("italian", "2 gennaio 1970", 1.0),
        ("italian", "2-giu-'70", 152.0),
        ("italian", "\u0662 gennaio 1970", None),
        ("italian", "2" + " " * 60 + "gennaio 1970", None),
    ],
)
def test_dates_with_names_of_months(months, word, day):
    assert day_reader(None, months)(word) == day


@pytest.mark.parametrize("language", MONTHS)
def test_each_language_has_twelve_months(language):
    read = day_reader(None, language)
    assert sorted(set(NAMES[language].values())) == list(range(1, 13))
    for name, month in NAMES[language].items():
        assert read(f"1 {name.upper()} 2023") == days(f"2023-{month:02}-01")


def test_no_name_means_different_months_in_two_languages():
    numbers = {}
    for names in NAMES.values():
        for name, month in names.items():
            numbers.setdefault(name, set()).add(month)
    assert {name for name, found in numbers.items() if len(found) > 1} == set()


def test_numbers_keep_their_order_beside_names():
    assert day_reader("month-first", "english")("1/2/1970") == 1.0
    assert day_reader("day-first", "english")("2/1/1970") == 1.0
    assert day_reader(None, "english")("2/1/1970") is None


def test_only_the_year_first_without_an_order():
    assert day_reader(None) is days


@pytest.mark.parametrize(
    ("word", "hour"),
    [
        ("0:00", 0.0),
        ("14:30", 14.5),
        ("14:30:36", 14.51),
        ("2:30 PM", 14.5),
        ("12:15am", 0.25),
        ("10:15:00.000000", 10.25),
        ("24:00", None),
        ("10:60", None),
        ("10", None),
        ("-1:30", None),
    ],
)
def test_times_of_day(word, hour):
    assert hours(word) == (None if hour is None else pytest.approx(hour))
