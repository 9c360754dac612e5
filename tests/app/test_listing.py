"""Which photos a command names on any system's disk, and what their results are called."""

import os
import unicodedata
from pathlib import Path

import pytest
from PIL import Image

from app import dataset, images, listing
from app.listing import CommandError

links = pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def results(plan: listing.Plan, out: Path) -> dict[str, str]:
    """The photos' names with those of their results."""
    return {job.input.name: job.output.relative_to(out).as_posix() for job in plan.jobs}


# --- Names of results -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "format", "wanted"),
    [
        (["a.jpg", "b.png"], "png", ["a.png", "b.png"]),
        (["a.jpg", "a.png"], "png", ["a.jpg.png", "a.png.png"]),
        (["a.jpg", "a.png"], None, ["a.jpg", "a.png"]),
        (["a.tif", "a.png"], None, ["a.tif.png", "a.png.png"]),
        (["a.jpg", "a.jpeg"], None, ["a.jpg.jpg", "a.jpeg.jpg"]),
        (["a.jpg", "a.png", "a.webp"], "jpg", ["a.jpg.jpg", "a.png.jpg", "a.webp.jpg"]),
        (["a.jpg", "a.png", "a.jpg.png"], "png", ["a.jpg.png", "a.png.png", "a.jpg.png.png"]),
        (["a", "a.png"], "png", ["a.png", "a.png.png"]),
    ],
)
def test_photos_of_one_name_have_results_of_their_own(tmp_path, names, format, wanted):
    folder = touch(tmp_path / "in", *names)
    plan = listing.plan([str(folder / name) for name in names], tmp_path / "out", format)
    assert list(results(plan, tmp_path / "out").values()) == wanted
    again = listing.plan([str(folder / name) for name in names], tmp_path / "out", format)
    assert again == plan


def test_the_longer_names_are_told(tmp_path):
    folder = touch(tmp_path / "in", "a.jpg", "a.png", "b.jpg")
    plan = listing.plan([str(folder)], tmp_path / "out", "png")
    assert len(plan.notes) == 1
    assert "a.jpg: its result is named a.jpg.png" in plan.notes[0]
    assert listing.plan([str(folder)], tmp_path / "out").notes == ()


def test_photos_of_one_name_in_two_folders_are_told_apart_by_those(tmp_path):
    folder = touch(tmp_path, "p/x/a.jpg", "p/y/a.jpg", "p/y/a.png", "q/y/b.jpg", "p/y/b.jpg")
    names = ["p/x/a.jpg", "p/y/a.jpg", "p/y/b.jpg", "q/y/b.jpg"]
    plan = listing.plan([str(folder / name) for name in names], tmp_path / "out")
    assert [job.output.name for job in plan.jobs] == [
        "x-a.jpg",
        "y-a.jpg",
        "p-y-b.jpg",
        "q-y-b.jpg",
    ]
    # Subfolders that are mirrored need none of it.
    mirrored = listing.plan([str(folder / "p")], tmp_path / "out", recursive=True)
    assert sorted(job.output.relative_to(tmp_path / "out").as_posix() for job in mirrored.jobs) == [
        "x/a.jpg",
        "y/a.jpg",
        "y/a.png",
        "y/b.jpg",
    ]


def test_a_photo_is_not_written_over_by_a_longer_name(tmp_path):
    folder = touch(tmp_path, "a.jpg", "a.png")
    with pytest.raises(CommandError, match="would be written over"):
        listing.plan([str(folder / "a.jpg"), str(folder / "a.png")], folder)


# --- Folders --------------------------------------------------------------------------------


@links
def test_a_linked_folder_is_read_once_and_by_its_own_name_where_it_has_one(tmp_path):
    root = touch(tmp_path / "all", "c.png", "sub/d.png")
    touch(tmp_path / "real", "a.png", "deep/b.png")
    (root / "linked").symlink_to(tmp_path / "real", target_is_directory=True)
    (root / "another").symlink_to("linked", target_is_directory=True)
    (root / "a shorter way").symlink_to("sub", target_is_directory=True)
    (root / ".hidden").symlink_to(touch(tmp_path / "secret", "e.png"), target_is_directory=True)
    found = [path.relative_to(root).as_posix() for path in images.list_pictures(root, True)]
    assert len(found) == 4
    assert {"c.png", "sub/d.png"} < set(found)
    assert sorted(os.path.basename(name) for name in found) == ["a.png", "b.png", "c.png", "d.png"]
    assert images.list_pictures(root) == [root / "c.png"]


def test_a_folder_below_that_cannot_be_read_is_passed_over_with_a_word(tmp_path, monkeypatch):
    root, scandir = touch(tmp_path / "all", "a.png", "lost+found/b.png"), os.scandir
    closed = {"lost+found"}

    def refusing(folder):
        # A real chmod would not stop the tests where they run as root.
        if Path(folder).name in closed:
            raise PermissionError(13, "Permission denied", str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refusing)
    found = images.look_through(root, recursive=True)
    assert found.pictures == [root / "a.png"]
    assert found.passed_over == (
        f"{root / 'lost+found'}: passed over: a folder that cannot be read",
    )
    closed.add("all")
    with pytest.raises(images.ImageError, match="all: Permission denied"):
        images.look_through(root, recursive=True)


@links
@pytest.mark.parametrize("target", [".", "..", "../sub", "../../all"])
def test_a_circle_of_links_ends(tmp_path, target):
    root = touch(tmp_path / "all", "a.png", "sub/b.png")
    touch(tmp_path, "beside.png")
    (root / "sub" / "round").symlink_to(target, target_is_directory=True)
    (root / "around").symlink_to(tmp_path, target_is_directory=True)
    found = images.look_through(root, recursive=True)
    assert found.pictures == [root / "a.png", root / "sub" / "b.png"]
    assert len(found.passed_over) == 1
    assert found.passed_over[0].startswith(f"{root / 'around'}: passed over: ")


@links
@pytest.mark.parametrize("recursive", [True, False])
def test_a_glob_and_two_names_of_a_folder_give_each_photo_once(tmp_path, recursive):
    root = touch(tmp_path / "all", "a.png", "sub/z.png")
    (root / "round").symlink_to(".", target_is_directory=True)
    plan = listing.plan([str(root / "**" / "*.png")], tmp_path / "out", recursive=recursive)
    assert [str(job.input.relative_to(root)) for job in plan.jobs] == ["a.png", "sub/z.png"]
    assert len(listing.plan([str(root / "round"), str(root)], tmp_path / "out").jobs) == 1


@links
def test_a_glob_among_links_that_lead_round_and_round_ends(tmp_path, monkeypatch):
    """By every way through these three there is no end."""
    root = touch(tmp_path / "all", "a.png", "sub/[b].png", ".hidden/c.png")
    for place, target in (("self", "."), ("sub/up", ".."), ("sub/all", "../../all"), ("l", "l")):
        (root / place).symlink_to(target, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    for pattern in ("all/**/*.png", "all/**", "**/*.png", "al?/**/**/*.png", "**/sub/../**/*.png"):
        found = {job.input.name for job in listing.plan([pattern], tmp_path / "out").jobs}
        assert found == {"a.png", "[b].png"}, pattern
    with pytest.raises(CommandError, match="matches no picture"):
        listing.plan(["all/**/*.jpg"], tmp_path / "out")


@links
def test_a_folder_that_is_itself_a_link_is_read(tmp_path):
    touch(tmp_path / "real", "a.png")
    (tmp_path / "link").symlink_to("real", target_is_directory=True)
    plan = listing.plan([str(tmp_path / "link")], tmp_path / "out", recursive=True)
    assert results(plan, tmp_path / "out") == {"a.png": "a.png"}


@links
def test_results_reached_through_a_link_are_no_photos(tmp_path):
    root = touch(tmp_path / "in", "a.png", "sub/b.png")
    out = touch(tmp_path / "out", "a.png")
    (root / "sub" / "painted").symlink_to(out, target_is_directory=True)
    plan = listing.plan([str(root)], out, recursive=True)
    assert results(plan, out) == {"a.png": "a.png", "b.png": "sub/b.png"}


@links
def test_a_training_reads_its_linked_photos(tmp_path, capsys):
    (tmp_path / "photos").mkdir()
    for name in ("here/a.png", "elsewhere/b.png"):
        (tmp_path / name).parent.mkdir()
        Image.new("RGB", (16, 16), (90, len(name), 5)).save(tmp_path / name)
    (tmp_path / "here" / "more").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    touch(tmp_path / "here", "c.nef", "d.exr")
    assert len(dataset.PictureFolder(tmp_path / "here")) == 2
    said = capsys.readouterr().err
    assert "c.nef: passed over: a camera raw file (Nikon NEF)" in said
    assert "d.exr: passed over: an OpenEXR picture" in said
    assert len(dataset.PictureFolder(tmp_path / "here", quiet=True)) == 2
    assert capsys.readouterr().err == ""


def test_what_might_have_been_meant_is_named(tmp_path):
    names = ("1.nef", "2.NEF", "3.nef", "4.nef", "5.nef", "a.svg", "b.pdf", "c.mp4", "notes.txt")
    folder = touch(tmp_path / "in", "photo.jpg", *names)
    notes = listing.plan([str(folder)], tmp_path / "out").notes
    assert len(notes) == 4
    raw = next(note for note in notes if "Nikon" in note)
    assert raw.startswith(f"{folder / '1.nef'}, 2.NEF, 3.nef and 2 more: passed over: ")
    assert "python -m app.video" in next(note for note in notes if "c.mp4" in note)
    (folder / "photo.jpg").unlink()
    with pytest.raises(CommandError, match=r"no picture in this folder.*a\.svg: passed over"):
        listing.plan([str(folder)], tmp_path / "out")


def test_a_glob_for_raw_files_means_them(tmp_path):
    folder = touch(tmp_path / "in", "1.nef", "2.NEF", "a.jpg", "b.mp4")
    plan = listing.plan([str(folder / "*.nef")], tmp_path / "out")
    assert results(plan, tmp_path / "out") == {"1.nef": "1.png"}
    plan = listing.plan([str(folder / "*")], tmp_path / "out")
    assert results(plan, tmp_path / "out") == {"a.jpg": "a.jpg"}


# --- Lists of names -------------------------------------------------------------------------


def read(folder: Path, monkeypatch: pytest.MonkeyPatch, data: bytes) -> list[str]:
    monkeypatch.chdir(folder)
    (folder / "list.txt").write_bytes(data)
    return listing.read_list("list.txt")


NAMES = ["kitchen/straße 1.jpg", "北斎.png", "a.jpg"]


@pytest.fixture
def photos(tmp_path) -> Path:
    return touch(tmp_path, *NAMES, "#1.jpg", "it's 5 o'clock.jpg")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "gb18030"]
)
def test_a_list_is_read_in_any_encoding_and_with_any_line_ends(
    photos, monkeypatch, end, last, encoding
):
    text = end.join([NAMES[0], "", *NAMES[1:]]) + (end if last else "")
    if encoding == "utf-16-be" or encoding == "utf-32":
        text = "\ufeff" * (encoding == "utf-16-be") + text
    assert read(photos, monkeypatch, text.encode(encoding)) == NAMES


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("déjà vu.jpg", "cp1252"),
        ("déjà vu.jpg", "mac_roman"),
        ("déjà vu.jpg", "cp850"),
        ("łódź.jpg", "cp1250"),
        ("Москва.jpg", "cp1251"),
        ("Москва.jpg", "koi8_r"),
        ("北斎.jpg", "cp932"),
        ("한국.jpg", "cp949"),
    ],
)
def test_a_name_in_an_older_encoding_is_the_one_on_the_disk(tmp_path, monkeypatch, name, encoding):
    touch(tmp_path, name, "plain.jpg")
    data = f"plain.jpg\r\n{name}\r\n".encode(encoding)
    assert read(tmp_path, monkeypatch, data) == ["plain.jpg", name]


@pytest.mark.skipif(os.name != "posix", reason="names are text elsewhere")
def test_a_name_that_is_no_text_is_taken_byte_for_byte(tmp_path, monkeypatch):
    name = os.fsdecode(b"caf\xe9.jpg")
    try:
        touch(tmp_path, name)
    except OSError:
        pytest.skip("this disk wants text")
    assert read(tmp_path, monkeypatch, b"caf\xe9.jpg\n") == [name]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_composed_in_another_way_is_the_one_on_the_disk(tmp_path, monkeypatch, form):
    names = [unicodedata.normalize(f, "déjà.jpg") for f in (form, {"NFC": "NFD"}.get(form, "NFC"))]
    touch(tmp_path, names[0])
    found = read(tmp_path, monkeypatch, f"{names[1]}\n".encode())
    assert [os.path.exists(name) for name in found] == [True]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ('"{a}"', "{a}"),  # Explorer's "Copy as path"
        ("'{a}'", "{a}"),  # a terminal into which a file was dropped
        ("  {a}  ", "{a}"),
        ("{a}\t", "{a}"),
        ("{a} ", "{a}"),  # `echo a.jpg >> list.txt` on Windows
        ("file://{quoted}", "{a}"),  # a Linux file manager
        ("#1.jpg", "#1.jpg"),
        ("it's 5 o'clock.jpg", "it's 5 o'clock.jpg"),
        ("kitchen\\straße 1.jpg", "kitchen/straße 1.jpg"),
        ("gone.jpg ", "gone.jpg"),
        ("#gone.jpg", "#gone.jpg"),
        ('"gone.jpg"', "gone.jpg"),
    ],
)
def test_a_name_is_read_as_tools_write_it(photos, monkeypatch, line, wanted):
    path = str(photos / NAMES[0])
    quoted = path.replace(" ", "%20").replace("ß", "%C3%9F")
    line, wanted = (text.format(a=path, quoted=quoted) for text in (line, wanted))
    assert read(photos, monkeypatch, f"{line}\n".encode()) == [wanted]


def test_comments_are_passed_over(photos, monkeypatch):
    text = "#EXTM3U\r\n# holiday\r\na.jpg\r\n"
    assert read(photos, monkeypatch, text.encode()) == ["a.jpg"]


def test_names_between_zero_bytes_keep_every_byte(photos, monkeypatch):
    assert read(photos, monkeypatch, b"a\0b\0c\0") == ["a", "b", "c"]
    assert read(photos, monkeypatch, b" two\nlines .jpg\0#1.jpg\0") == [
        " two\nlines .jpg",
        "#1.jpg",
    ]


def test_a_name_that_was_meant_with_its_blanks_and_quotes_keeps_them(tmp_path, monkeypatch):
    if os.name != "posix":
        pytest.skip("no such names")
    touch(tmp_path, "'a.jpg'", " b.jpg ", "b.jpg", "a.jpg")
    assert read(tmp_path, monkeypatch, b"'a.jpg'\n b.jpg \n") == ["'a.jpg'", " b.jpg "]


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\r\n \r\n", b"# nothing\n"])
def test_a_list_without_a_name_is_refused(photos, monkeypatch, data):
    with pytest.raises(CommandError, match="no name in it"):
        read(photos, monkeypatch, data)


def test_a_name_that_is_too_long_fails_alone(tmp_path):
    touch(tmp_path, "a.png")
    names = [str(tmp_path / "a.png"), "x" * 100_000]
    plan = listing.plan([], tmp_path / "out", listed=names)
    assert [job.input.name for job in plan.jobs] == ["a.png", names[1]]
