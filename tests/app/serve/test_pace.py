"""How long an order would wait is known from the orders before it."""

from app.serve.pace import Pace


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def painted_in_turn(pace, clock, count, seconds, painters):
    """So many orders that come together, each painted in so many seconds by so many painters."""
    numbers = [pace.begin() for _ in range(count)]
    for first in range(0, count, painters):
        clock.now += seconds
        for number in numbers[first : first + painters]:
            pace.end(number)


def test_two_painters_take_half_of_the_time():
    for painters in (1, 2):
        clock = Clock()
        pace = Pace(lambda painters=painters: painters, clock)
        for _ in range(10):
            painted_in_turn(pace, clock, 6, 4.0, painters)
        # Rather more than less: of an odd number the last one is painted alone.
        assert 1 <= pace.seconds(6) / (6 * 4.0 / painters) < 1.1


def test_a_lost_painter_shows_and_so_does_a_new_one():
    clock = Clock()
    pace = Pace(lambda: 2, clock)
    painted_in_turn(pace, clock, 20, 4.0, 2)
    painted_in_turn(pace, clock, 40, 4.0, 1)
    assert pace.seconds(6) > 20  # 24 s by the one that is left
    painted_in_turn(pace, clock, 40, 4.0, 2)
    assert pace.seconds(6) < 13


def test_nothing_done_for_long_shows_before_anything_is():
    clock = Clock()
    pace = Pace(lambda: 1, clock)
    painted_in_turn(pace, clock, 5, 1.0, 1)
    assert abs(pace.seconds(4) - 4) < 0.01
    pace.begin()
    clock.now += 30
    assert pace.seconds(4) == 120


def test_orders_that_took_no_painting_and_those_who_have_gone_do_not_count():
    clock = Clock()
    pace = Pace(lambda: 1, clock)
    painted_in_turn(pace, clock, 3, 2.0, 1)
    number = pace.begin()
    pace.end(number, counts=False)
    assert abs(pace.seconds(1) - 2) < 0.01


def test_a_light_load_is_not_taken_for_slow_painters():
    clock = Clock()
    pace = Pace(lambda: 4, clock)
    painted_in_turn(pace, clock, 1, 4.0, 1)
    assert pace.seconds(4) == 4.0
