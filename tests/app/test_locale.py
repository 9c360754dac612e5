"""Every command on a system whose terminal and files are not UTF-8."""

import os
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest
import skimage.data
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]

# A C locale without Python's own ways out of it; what Windows' terminals can show.
SYSTEMS = {
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
}

pytestmark = pytest.mark.skipif(os.name != "posix", reason="names are bytes here alone")


def program(system: str, *arguments: object) -> subprocess.CompletedProcess:
    """A command as a user of that system starts it; its output as bytes."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHON"))}
    command = [sys.executable, "-m", *arguments]
    environment = inherited | SYSTEMS[system] | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [os.fsencode(str(word)) for word in command], cwd=ROOT, env=environment, capture_output=True
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode("utf-8", "replace")
    return done


@pytest.mark.parametrize("system", SYSTEMS)
def test_photos_of_any_name_are_painted_and_told(checkpoint, tmp_path, system):
    folder = tmp_path / "Fotos 北斎"
    folder.mkdir()
    for name in ("é.jpg", "波.png", os.fsdecode(b"caf\xe9.png")):
        Image.fromarray(skimage.data.chelsea()[:24, :32]).save(os.fsencode(str(folder / name)))
    (folder / "Δ.jpg").write_text("no picture", encoding="utf-8")
    (folder / "list Ω.txt").write_text(f"{folder}/波.png\r\n", encoding="utf-16")
    style = tmp_path / "Gemälde.png"
    Image.fromarray(skimage.data.coffee()[:32, :32]).save(style)
    out = tmp_path / "gemalt Σ"
    options = ["--checkpoint", checkpoint, "--device", "cpu", "--out", out, "--format", "png"]
    options += ["--style", style, "--json", "--from-file", folder / "list Ω.txt"]
    done = program(system, "app.stylize", folder, *options)
    assert done.returncode == 1  # Δ.jpg alone
    assert done.stderr.rstrip().splitlines()[-1].startswith(b"3 painted, 1 failed")
    made = sorted(os.listdir(os.fsencode(out)))
    wanted = [os.fsencode(name) for name in ("é.png", "波.png")] + [b"caf\xe9.png"]
    assert made == sorted([*wanted, b".repaint.jsonl"])
    again = program(system, "app.stylize", folder, *options, "--resume")
    assert again.stderr.rstrip().splitlines()[-1].startswith(b"0 painted, 3 done before, 1 failed")


def test_a_clip_of_any_name_is_painted_and_told(checkpoint, tmp_path):
    clip, out = tmp_path / "Übung 海.mp4", tmp_path / "絵 é.mp4"
    with av.open(str(clip), "w") as file:
        stream = file.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for shift in range(3):
            pixels = np.ascontiguousarray(skimage.data.chelsea()[shift : shift + 48, :64])
            file.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, "rgb24")))
        file.mux(stream.encode())
    options = ["--checkpoint", checkpoint, "--device", "cpu", "--style", "dots", "--out", out]
    done = program("C", "app.video", clip, *options)
    assert done.returncode == 0, done.stderr
    with av.open(str(out)) as file:
        assert sum(1 for _ in file.decode(video=0)) == 3


@pytest.mark.parametrize("command", ["app", "app.stylize", "app.video"])
def test_help_is_shown(command):
    done = program("C", command, "--help")
    assert done.returncode == 0 and done.stdout.startswith(b"usage: ")
