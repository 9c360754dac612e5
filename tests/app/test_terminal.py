"""A terminal of any encoding is printed to without an error."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from app.terminal import show_anything
show_anything()
for stream in (sys.stdout, sys.stderr):
    print("é Δ 北斎 \\udce5 🎨", file=stream)
"""


@pytest.mark.parametrize(
    "encoding", ["ascii", "latin-1", "cp1252", "cp437", "utf-8", "utf-8:strict"]
)
def test_every_character_is_shown_or_spelled(encoding):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        env={"PYTHONIOENCODING": encoding, "PYTHONPATH": ".", "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    for printed in (done.stdout, done.stderr):
        text = printed.decode(encoding.split(":")[0])
        assert text.count("\n") == 1 and r"\udce5" in text
        for sign in "éΔ北斎🎨":
            assert sign in text or ascii(sign)[1:-1] in text


def test_a_program_without_a_console_starts():
    program = "import sys; sys.stdout = sys.stderr = None\n" + PROGRAM.split("for stream")[0]
    assert subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": "."}).returncode == 0


def test_a_program_whose_console_is_closed_prints_into_nothing():
    """And no file that it opens gets the number of one, which libraries print to."""
    program = PROGRAM + "import os\nassert os.open('.', os.O_RDONLY) > 2\n"
    closed = ["sh", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, program]
    assert subprocess.run(closed, env={"PYTHONPATH": "."}).returncode == 0


def test_names_are_unicode_and_files_the_system_s_whatever_the_locale():
    program = r"""
import os
from app.terminal import file_name, typed
hokusai, raw = "\u5317\u658e", b"\xe5\x8c\x97\xe6\x96\x8e"
assert typed(os.fsdecode(raw)) == hokusai
assert os.fsencode(file_name(hokusai)) == raw
assert typed("monet") == file_name("monet") == "monet"
assert typed(os.fsdecode(b"\xff")) == os.fsdecode(b"\xff")  # no UTF-8: as it is
"""
    for locale in ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {}):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": ".", "PYTHONUTF8": "1", **locale},
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
