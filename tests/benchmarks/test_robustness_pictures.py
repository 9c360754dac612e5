"""Mutated pictures are tried as the benchmark says, and what does harm is found."""

import random
from argparse import Namespace

import pytest

from app import images
from benchmarks.robustness import pictures


def test_every_original_is_read_and_the_same_seed_mutates_alike(tmp_path):
    for number, (suffix, data) in enumerate(pictures.originals()):
        (tmp_path / f"{number}.{suffix}").write_bytes(data)
        picture = images.load(tmp_path / f"{number}.{suffix}")
        assert min(picture.width, picture.height) >= 48
    for _, mutation in pictures.MUTATIONS:
        first, again = (mutation(random.Random(3), data) for _ in range(2))
        assert first == again


@pytest.mark.parametrize("limit", ["", "MOST_MEMORY"])
def test_mutated_pictures_do_no_harm_or_are_named(monkeypatch, limit):
    if limit:
        monkeypatch.setattr(pictures, limit, -1.0)
    outcome = pictures.run(Namespace(pictures=12, painted=0), random.Random(1))
    assert sum(outcome.counts.values()) == 12
    assert len(outcome.faults) == (12 if limit else 0), outcome.faults
