import pytest

from node.data.dates import day_reader, days, hours


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
