"""Which photos a cluster paints, and where their results go: as app.stylize has it."""

import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="the cluster's requirements are not installed")

from app import listing
from app.cluster import stores
from app.cluster.plan import Plan
from app.listing import CommandError


def planned(tmp_path, out, names, *, format=None, recursive=False, listed=()):
    plan = Plan(tmp_path / f"{uuid.uuid4().hex}.db", str(out))
    plan.fill([str(name) for name in names], format, recursive, listed=listed)
    return plan


def pairs(plan):
    return [(job.input, job.output, job.format) for job, _ in plan.jobs()]


@pytest.mark.parametrize("recursive", [False, True])
@pytest.mark.parametrize("format", [None, "png"])
def test_results_are_named_as_the_plain_batch_names_them(tmp_path, recursive, format):
    for name in ("x/a.jpg", "x/a.tif", "y/a.jpg", "x/sub/b.png", "x/a.jpg.png", "x/c.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    names = [tmp_path / "x", tmp_path / "y", tmp_path / "x" / "*.tif", tmp_path / "missing.jpg"]
    plain = listing.plan([str(name) for name in names], tmp_path / "out", format, recursive)
    plan = planned(tmp_path, tmp_path / "out", names, format=format, recursive=recursive)
    assert pairs(plan) == [(str(j.input), str(j.output), j.format) for j in plain.jobs]
    assert tuple(plan.notes) == plain.notes
    assert len(plan) == len(plain.jobs)


def test_a_name_that_is_no_utf_8_is_passed_over_with_a_word(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.png").touch()
    try:
        (tmp_path / "in" / "\udcff.png").touch()
    except OSError:
        pytest.skip("this disk has no such names")
    plan = planned(tmp_path, tmp_path / "out", [tmp_path / "in"])
    plan.note_made([b'{"output": "\\udcff.png", "result": "r", "made_of": "k"}'])
    assert [Path(name).name for name, _, _ in pairs(plan)] == ["a.png"]
    assert len(plan.notes) == 1 and "not in UTF-8" in plan.notes[0]


@given(st.lists(st.from_regex(r"\A[ab](\.[ab])?/[ab](\.jpg)?\.(jpg|png|tif)\Z"), max_size=8))
def test_any_names_are_told_apart_as_in_the_plain_batch(tmp_path_factory, names):
    folder = tmp_path_factory.mktemp("photos")
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    given_names = [str(folder / name) for name in names]

    def outcome(make):
        try:
            return make()
        except CommandError as error:
            return "would both" in str(error) or str(error)

    plain = outcome(
        lambda: [str(job.output) for job in listing.plan(given_names, folder / "o", "png").jobs]
    )
    ours = outcome(
        lambda: [row[1] for row in pairs(planned(folder, folder / "o", given_names, format="png"))]
    )
    assert ours == plain


def test_a_photo_is_never_written_over(tmp_path):
    (tmp_path / "a.jpg").touch()
    with pytest.raises(CommandError, match="would be written over"):
        planned(tmp_path, tmp_path, [tmp_path / "a.jpg"])


def test_nothing_named_and_nothing_found_are_said(tmp_path):
    with pytest.raises(CommandError, match="no photo is named"):
        planned(tmp_path, tmp_path / "out", [])
    with pytest.raises(CommandError, match="no picture in this folder"):
        planned(tmp_path, tmp_path / "out2", [tmp_path])


def store(tmp_path, *names):
    """A store's folder: file:// goes through the same calls as s3://."""
    for name in names:
        path = tmp_path / "bucket" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return f"file://{tmp_path}/bucket"


def test_a_stores_folder_is_listed_as_a_disks_is(tmp_path):
    bucket = store(tmp_path, "in/a.jpg", "in/b.txt", "in/deep/c.png", "in/.hidden.jpg")
    plan = planned(tmp_path, f"{bucket}/out", [f"{bucket}/in"])
    assert pairs(plan) == [(f"{bucket}/in/a.jpg", f"{bucket}/out/a.jpg", "jpg")]
    plan = planned(tmp_path, f"{bucket}/out", [f"{bucket}/in"], recursive=True)
    assert [row[1] for row in pairs(plan)] == [
        f"{bucket}/out/a.jpg",
        f"{bucket}/out/deep/c.png",
    ]


def test_globs_of_stores_match_within_a_folder_and_across_them(tmp_path):
    bucket = store(tmp_path, "in/a1.jpg", "in/a2.jpg", "in/b.jpg", "in/deep/a3.jpg")
    found = list(stores.matches(f"{bucket}/in/a?.jpg"))
    assert found == [f"{bucket}/in/a1.jpg", f"{bucket}/in/a2.jpg"]
    assert len(list(stores.matches(f"{bucket}/in/**/a*.jpg"))) == 3


def test_results_in_a_stores_input_folder_are_not_photos(tmp_path):
    bucket = store(tmp_path, "in/a.jpg", "in/out/a.jpg")
    plan = planned(tmp_path, f"{bucket}/in/out", [f"{bucket}/in"], recursive=True)
    assert [row[0] for row in pairs(plan)] == [f"{bucket}/in/a.jpg"]


def test_a_stores_missing_folder_is_one_line(tmp_path):
    with pytest.raises(CommandError, match="no such folder or picture"):
        planned(tmp_path, "out", [f"file://{tmp_path}/nowhere"])


def test_what_earlier_runs_noted_comes_with_the_photos(tmp_path):
    (tmp_path / "a.jpg").touch()
    plan = planned(tmp_path, tmp_path / "out", [tmp_path / "a.jpg"])
    plan.note_made([b'{"output": "a.jpg", "result": "r", "made_of": "k"}', b'{"outp'])
    assert [known for _, known in plan.jobs()] == [{"r": "k"}]
    assert list(plan.made()) == [("a.jpg", "r", "k")]


def test_names_of_a_disk_are_read_by_workers_from_where_the_command_ran(tmp_path):
    assert stores.join("s3://b/x?endpoint_override=h", "y") == "s3://b/x/y?endpoint_override=h"
    assert not stores.is_address(str(Path("a/b.jpg")))
