"""Files appear whole or not at all, and a place is tried without leaving anything there."""

import errno
import os

import pytest
import torch

from models import weights_file, whole_file
from tests.full_disk import full_disk

pytestmark = pytest.mark.skipif(os.name != "posix", reason="limits a file's size as a disk would")


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt(), OSError(28, "full")])
def test_what_fails_half_way_leaves_the_old_file_and_no_other(tmp_path, error):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with pytest.raises(type(error)), whole_file.writing_whole(path) as part:
        part.write_bytes(b"half of the n")
        raise error
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_file_is_seen_only_when_it_is_whole_and_has_a_file_s_permissions(tmp_path):
    path, seen = tmp_path / "a.bin", []
    with whole_file.writing_whole(path, lambda part: seen.append(path.exists())) as part:
        part.write_bytes(b"new")
        seen.append(path.exists())
    (tmp_path / "b.bin").touch()
    assert seen == [False, False] and path.read_bytes() == b"new"
    assert path.stat().st_mode == (tmp_path / "b.bin").stat().st_mode


def test_saved_tensors_are_read_back(tmp_path):
    state = {"a": torch.arange(5.0), "b": [1, "ü"]}
    whole_file.save_tensors(state, tmp_path / "北斎.pt")
    again = torch.load(tmp_path / "北斎.pt", weights_only=True)
    assert torch.equal(again["a"], state["a"]) and again["b"] == state["b"]


@pytest.mark.parametrize("most", [0, 100, 5000, 399_000], ids=str)
def test_tensors_on_a_full_disk_say_so_wherever_it_ends(tmp_path, most):
    path = tmp_path / "a.pt"
    path.write_bytes(b"old")
    with full_disk(most), pytest.raises(OSError) as caught:
        whole_file.save_tensors({"a": torch.zeros(100_000)}, path)
    assert caught.value.errno == errno.EFBIG
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("most", [0, 100, 5000], ids=str)
def test_weights_on_a_full_disk_say_so_wherever_it_ends(tmp_path, most):
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"old")
    with full_disk(most), pytest.raises(OSError) as caught:
        weights_file.write_weights(path, {"a": torch.zeros(100_000)}, {})
    assert caught.value.errno == errno.EFBIG
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_a_place_that_can_be_written_is_left_as_it_was(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    whole_file.check_place(path, 10_000)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]
    whole_file.check_place(tmp_path / "new" / "folder" / "a.bin")
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_without_room_is_known_before_the_work(tmp_path):
    with full_disk(100_000):
        whole_file.check_place(tmp_path / "a.bin", 99_000)
        with pytest.raises(OSError) as caught:
            whole_file.check_place(tmp_path / "a.bin", 200_000)
    assert caught.value.errno == errno.EFBIG and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("place", "number"),
    [
        ("file/a.bin", errno.ENOTDIR),
        ("file/more/a.bin", errno.ENOTDIR),
        ("folder", errno.EISDIR),
        ("x" * 300 + ".bin", errno.ENAMETOOLONG),
        ("/proc/a.bin", errno.ENOENT),
    ],
)
def test_a_place_that_can_t_be_written_is_named_with_the_reason(tmp_path, place, number):
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError) as caught:
        whole_file.check_place(tmp_path / place)
    assert caught.value.errno == number
    assert caught.value.filename == str(tmp_path / place) and caught.value.strerror


def test_a_killed_process_s_unfinished_files_are_swept_and_no_others(tmp_path):
    name = f"-{'0' * 32}.part"
    dead = [f".repaint-{2**22 + 1}{name}", f".repaint-{os.getpid()}{name}"]
    alive = [f".repaint-{os.getppid()}{name}", ".repaint-x.part", "holiday.part"]
    for file in dead + alive:
        (tmp_path / file).touch()
    whole_file.remove_leftovers([tmp_path, tmp_path / "not yet made"])
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(alive)
