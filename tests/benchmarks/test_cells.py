"""Finished cells are kept: a benchmark stopped at any point goes on where it was."""

import json

import pytest

from benchmarks.cells import Cells


def test_what_is_finished_is_not_computed_again(tmp_path):
    path, computed = tmp_path / "a" / "runs.jsonl", []

    def compute(cell):
        computed.append(cell["d"])
        if cell["d"] == 3:
            raise KeyboardInterrupt
        return {"error": 10.0 * cell["d"]}

    cells = [{"d": d, "seed": 0} for d in (1, 2, 3, 4)]
    with pytest.raises(KeyboardInterrupt):
        Cells(path).fill(cells, compute, "runs")
    assert computed == [1, 2, 3]
    again = Cells(path)
    assert again.found(cells) == [(c, {"error": 10.0 * c["d"]}) for c in cells[:2]]
    again.fill(cells[:2], compute, "runs")
    assert computed == [1, 2, 3]
    assert {"d": 3, "seed": 0} not in again and {"seed": 0, "d": 2} in again
    assert again.get(cells[2]) is None


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_a_line_that_a_kill_cut_is_made_anew(tmp_path, cut):
    path = tmp_path / "runs.jsonl"
    cells = Cells(path)
    for d in (1, 2):
        cells.keep({"d": d}, d)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - cut])
    after = Cells(path)
    # Of the last line, the end alone may be missing: then nothing of it is lost.
    assert {"d": 1} in after and ({"d": 2} in after) == (cut == 1)
    after.fill([{"d": 2}], lambda cell: cell["d"], "runs")
    lines = path.read_text().splitlines()
    assert [json.loads(line)["result"] for line in lines] == [1, 2]
    assert {"d": 2} in Cells(path)


def test_a_file_of_something_else_is_named(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text("no cell\n{}\n")
    with pytest.raises(ValueError, match=r"runs\.jsonl: line 1 is no finished cell"):
        Cells(path)
    path.write_text('{"cell": {"d": 1}, "result": 1}\n[]\n{"cell": {"d": 2}, "result": 1}\n')
    with pytest.raises(ValueError, match="line 2 is no finished cell"):
        Cells(path)
