"""A result that cannot be written is known before the work where it can be, and named by itself."""

import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import pytest

from app.clips import CONTAINERS, ClipError, container_of, try_out
from tests.app.clips.making import take_over, write_clip


@pytest.fixture
def files_of_at_most() -> Callable[[int], AbstractContextManager[None]]:
    """What a full disk does to a file."""

    @contextmanager
    def limited(size: int) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited


def test_what_can_be_written_to_is_left_empty(tmp_path):
    try_out(tmp_path / "part", tmp_path / "out.mp4")
    assert (tmp_path / "part").read_bytes() == b""


def test_a_folder_a_path_below_a_file_and_a_full_disk_are_found_at_once(tmp_path, files_of_at_most):
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ClipError, match=r"folder\.mp4: cannot be written: is a folder"):
        try_out(tmp_path / "part", tmp_path / "folder.mp4")
    below = tmp_path / "file" / "out.mp4"
    with pytest.raises(ClipError, match=r"out\.mp4: cannot be written: Not a directory"):
        try_out(below.with_name("part"), below)
    with (
        files_of_at_most(10_000),
        pytest.raises(ClipError, match=r"out\.mp4: cannot be written: File too large"),
    ):
        try_out(tmp_path / "part", tmp_path / "out.mp4")


@pytest.mark.parametrize("suffix", CONTAINERS)
def test_a_disk_that_is_full_on_the_way_is_named_with_its_reason(
    suffix, tmp_path, files_of_at_most
):
    draw = np.random.default_rng(0)
    noise = list(draw.integers(0, 256, (12, 96, 128, 3)).astype(np.uint8))
    clip = write_clip(tmp_path / "noise.mkv", noise, sound="libopus", pixels="yuv420p")
    with (
        files_of_at_most(60_000),
        pytest.raises(ClipError, match=rf"out\{suffix}: cannot be written: File too large"),
    ):
        take_over(clip, tmp_path / f"out{suffix}")


def test_results_have_one_of_five_suffixes(tmp_path):
    assert container_of(tmp_path / "OUT.MP4").name == "mp4"
    with pytest.raises(ValueError, match=r"mp4, m4v, mov, mkv, webm, not as 'out\.avi'"):
        container_of(tmp_path / "out.avi")
