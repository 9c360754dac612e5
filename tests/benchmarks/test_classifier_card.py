"""The card's figures: what they count, and that the card shows them."""

from pathlib import Path

import numpy as np
import pytest
import skimage.data
from PIL import Image

import models
from app.shipped import CLASSIFIER
from benchmarks import classifier_card


@pytest.fixture(scope="module")
def artworks(tmp_path_factory) -> Path:
    """test/CLASS for the committed classes: two pieces of a real picture in each."""
    root = tmp_path_factory.mktemp("artworks")
    pictures = ("astronaut", "coffee", "chelsea", "rocket", "retina")
    classes = ("cezanne", "monet", "photo", "ukiyoe", "vangogh")
    for name, picture in zip(classes, pictures, strict=True):
        folder = root / "test" / name
        folder.mkdir(parents=True)
        for i in range(2):
            piece = getattr(skimage.data, picture)()[40 * i : 40 * i + 160, 100:260]
            Image.fromarray(np.ascontiguousarray(piece)).save(folder / f"{i}.png")
    return root


def test_the_card_shows_what_was_measured(artworks):
    classifier, record = models.load_classifier(CLASSIFIER)
    figures = classifier_card.measure(classifier, artworks, 2, 0)
    assert figures["pictures"] == dict.fromkeys(classifier.classes, 2)
    for row in figures["confusion"].values():
        assert sum(row.values()) == pytest.approx(1)
    assert set(figures["kept"]) == set(classifier_card.CHANGES)
    assert set(figures["recolored"]) == set(classifier.classes) - {"photo"}
    card = classifier_card.markdown("judge.safetensors", record, figures)
    assert f"**{figures['accuracy']['all pictures']:.1%}** are right" in card
    for name, row in figures["confusion"].items():
        assert f"| {name} | 2 | " + " | ".join(f"{share:.3f}" for share in row.values()) in card


def test_nothing_done_to_a_picture_keeps_its_class(artworks, monkeypatch):
    classifier, _ = models.load_classifier(CLASSIFIER)
    paintings = classifier_card.class_folders(artworks / "test")
    monkeypatch.setattr(classifier_card, "CHANGES", {"nothing": lambda picture: picture})
    assert classifier_card.kept(classifier, paintings, 1) == {"nothing": 1.0}
