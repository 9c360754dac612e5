"""Threads are given up where they wait for a core, and taken back where cores are idle."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import skimage.data
import torch

from app import cores
from app import painter as painter_module
from app.cores import FairShare, Reading
from app.images import Picture
from app.limits import LIMITS
from app.look import Look
from app.painter import Painter
from app.shipped import CHECKPOINT


@pytest.fixture(autouse=True)
def four_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


class Machine:
    """Readings of a machine that is as busy as a test says."""

    def __init__(self) -> None:
        self.clock = self.waited = self.idle = 0.0

    def __call__(self) -> Reading:
        return Reading(self.clock, self.waited, self.idle)

    def time(self) -> float:
        return self.clock

    def runs(self, seconds: float, *, waited: float = 0.0, idle: float = 0.0) -> None:
        """waited, idle: shares of the time."""
        self.clock += seconds
        self.waited += waited * seconds
        self.idle += idle * seconds


def test_all_threads_paint_on_a_quiet_machine():
    machine = Machine()
    share = FairShare(machine, machine.time)
    for _ in range(5):
        machine.runs(1)
        assert share.adjust() == torch.get_num_threads() == 4


@pytest.mark.parametrize(("waited", "left"), [(0.1, 4), (0.5, 3), (1.9, 2), (9.0, 1)])
def test_threads_that_wait_for_a_core_are_given_up(waited, left):
    machine = Machine()
    share = FairShare(machine, machine.time)
    machine.runs(1, waited=waited)
    assert share.adjust() == torch.get_num_threads() == left


def test_threads_come_back_with_idle_cores():
    machine = Machine()
    share = FairShare(machine, machine.time)
    machine.runs(1, waited=3)
    assert share.adjust() == 1
    machine.runs(1, idle=0.2)
    assert share.adjust() == 1
    machine.runs(1, idle=2)
    assert share.adjust() == 3
    machine.runs(1, idle=9)
    assert share.adjust() == 4


def test_a_busy_machine_is_tried_ever_more_rarely():
    machine = Machine()
    share = FairShare(machine, machine.time)
    machine.runs(1, waited=9)
    share.adjust()
    tried = []
    for _ in range(4000):
        machine.runs(0.1)
        if share.adjust() > 1:
            tried.append(machine.clock)
            machine.runs(0.1, waited=2)
            assert share.adjust() == 1
    waits = [later - before for before, later in pairwise(tried)]
    assert len(tried) < 20
    assert sorted(waits) == pytest.approx(waits, abs=0.2)
    assert max(waits) < cores.MOST_PATIENCE + 1


def test_what_the_user_sets_is_the_most():
    machine = Machine()
    share = FairShare(machine, machine.time)
    machine.runs(1)
    share.adjust()
    torch.set_num_threads(2)
    machine.runs(1, idle=9)
    assert share.adjust() == 2
    torch.set_num_threads(1)
    machine.runs(1, idle=9)
    assert share.adjust() == 1


def test_a_moment_says_nothing():
    machine = Machine()
    share = FairShare(machine, machine.time)
    machine.runs(cores.SHORTEST / 2, waited=50)
    assert share.adjust() == 4
    machine.runs(cores.SHORTEST, waited=50)
    assert share.adjust() == 1


def test_where_the_system_does_not_tell_nothing_is_adjusted():
    share = FairShare(lambda: None)
    assert share.adjust() == 4


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux tells")
def test_linux_tells():
    first, second = cores.read(), cores.read()
    assert second.clock > first.clock
    assert second.waited >= first.waited >= 0
    assert second.idle >= first.idle > 0


def test_another_number_of_threads_paints_the_same_picture():
    photo = Picture(np.ascontiguousarray(skimage.data.astronaut()[:160, 160:320]))
    painter = Painter(CHECKPOINT, "cpu", replace(LIMITS, remembered_content=0))
    painted = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        look = Look(brush_size=2, keep_color="matched")
        pictures = [painter.paint(photo, painter.style(name)).rgb for name in painter.style_names]
        painted.append([*pictures, painter.paint(photo, painter.style("monet"), look).rgb])
    apart = np.abs(np.subtract(*painted, dtype=int))
    # Of the sums, products of matrices may be added up in another order: a level at most.
    assert apart.max() <= 1
    assert (apart > 0).mean() < 1e-3


def test_the_painter_gives_up_threads_on_a_busy_machine(monkeypatch):
    machine = Machine()
    monkeypatch.setattr(painter_module, "FairShare", lambda: FairShare(machine, machine.time))
    painter = Painter(CHECKPOINT, "cpu")
    photo = Picture(np.full((64, 64, 3), 120, np.uint8))
    machine.runs(1, waited=9)
    painter.paint(photo, painter.style("monet"))
    assert torch.get_num_threads() == 1
