"""The benchmark that tells a sky's noise from its strokes."""

import sys

import models
from app.shipped import CHECKPOINT
from benchmarks import weave


def test_a_smoothed_sky_is_painted_with_less_texture_than_the_photo_s(
    monkeypatch, capsys, tmp_path
):
    shipped = models.load_checkpoint(CHECKPOINT)
    # Whose network was trained with strokes; the others are codes alone.
    styles = dict(list(shipped.styles.items())[:4])
    models.save_checkpoint(tmp_path / "four.safetensors", shipped.network, styles, shipped.record)
    monkeypatch.setattr(sys, "argv", ["weave", "--checkpoint", str(tmp_path / "four.safetensors")])
    weave.main()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[4:]]
    assert [row[0] for row in rows] == list(styles)
    for row in rows:
        as_it_is, smoothed, strokes = (float(row[i]) for i in (1, 3, 5))
        assert smoothed < 0.5 * as_it_is < strokes
