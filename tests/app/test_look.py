"""What a look accepts, and that every option of it is on the command line, the page and the API."""

import argparse
import dataclasses
import math

import pytest

import models
from app import color, stylize
from app.demo.components import api_input, shown_input, shown_value
from app.look import AMOUNTS, AS_THE_STYLE, OPTIONS, Look, chosen, explained


@pytest.mark.parametrize("name", [name for name in OPTIONS if "range" in OPTIONS[name].metadata])
@pytest.mark.parametrize("value", [-0.01, 3.1, math.nan, math.inf, None, "much"])
def test_a_number_out_of_its_range_is_refused_with_its_name_and_range(name, value):
    most = 1 if name == "strength" else 3
    with pytest.raises(ValueError, match=rf"^{name} must be between 0 and {most}, got {value}$"):
        Look(**{name: value})
    for allowed in (0, 0.5, most):
        assert getattr(Look(**{name: allowed}), name) == allowed


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("brush_size", 3, r"\('auto', 1, 2, 4, 8\), got 3"),
        ("brush_size", None, r"\('auto', 1, 2, 4, 8\), got None"),
        ("keep_color", "hue", r"\('luminance', 'matched'\), got 'hue'"),
        ("keep_color", [], r"\('luminance', 'matched'\), got \[\]"),
    ],
)
def test_what_is_no_choice_is_refused_with_the_name_and_the_choices(name, value, wanted):
    with pytest.raises(ValueError, match=f"^{name} must be one of {wanted}$"):
        Look(**{name: value})


def test_a_look_is_a_person_s_amounts_and_cannot_be_changed():
    assert {each.name for each in dataclasses.fields(models.Amounts)} == AMOUNTS < set(OPTIONS)
    assert models.Ground(tint=0.2).of(Look(tint=0.5)) == models.Ground(tint=0.1)
    assert Look(tint=2) == Look(tint=2) != AS_THE_STYLE
    with pytest.raises(dataclasses.FrozenInstanceError):
        AS_THE_STYLE.tint = 2


def test_the_command_line_has_every_option_and_says_what_it_does(capsys):
    parser = argparse.ArgumentParser()
    stylize.add_style_options(parser)
    assert stylize.look_of(parser.parse_args([])) == AS_THE_STYLE
    words = parser.format_help().split()
    for name, option in OPTIONS.items():
        assert "--" + name.replace("_", "-") in words
        assert " ".join(explained(option).split()[:6]) in " ".join(words)
    given = "--strength .5 --brushwork 0 --tint 3 --brush-size 4 --keep-color matched"
    look = stylize.look_of(parser.parse_args(given.split()))
    assert look == Look(strength=0.5, brushwork=0, tint=3, brush_size=4, keep_color="matched")
    assert stylize.look_of(parser.parse_args(["--keep-color"])).keep_color == color.WAYS[0]
    for wrong in ("--brush-size 3", "--brush-size big", "--keep-color hue", "--tone 4"):
        with pytest.raises(SystemExit):
            parser.parse_args(wrong.split())
        assert f"argument {wrong.split()[0]}: " in capsys.readouterr().err


@pytest.mark.parametrize("name", OPTIONS)
def test_the_page_and_the_api_begin_with_what_suits_the_style(name):
    option = OPTIONS[name]
    shown = shown_input(option)
    assert shown.label == option.metadata["label"]
    assert shown_value(option, shown.value) == option.default
    sent = api_input(option)
    assert sent.label == name
    assert chosen(option, sent.value) == option.default


def test_what_is_switched_on_is_the_better_choice():
    option = OPTIONS["keep_color"]
    assert shown_value(option, True) == color.WAYS[0] and shown_value(option, False) is None
    assert chosen(option, "matched") == "matched" and chosen(option, "") is None


@pytest.mark.parametrize(
    ("longest", "size"), [(1, 1), (512, 1), (1024, 2), (1440, 4), (2048, 4), (4000, 8), (9000, 8)]
)
def test_strokes_are_as_large_as_suits_the_picture_where_they_are_to_be(longest, size):
    assert Look().stroke_size(longest, 1) == size
    assert Look(brush_size="auto").stroke_size(longest // 2, longest) == size
    assert Look(brush_size=2).stroke_size(longest, longest) == 2


def test_a_choice_is_known_by_how_it_is_written():
    option = OPTIONS["brush_size"]
    assert chosen(option, "4") == chosen(option, 4) == 4
    assert chosen(option, "auto") == "auto"
    assert chosen(option, "big") == "big"
