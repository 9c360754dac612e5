"""The paintings beside the clone: skipped where they are absent, required where they are there.

`make test` runs files side by side (pytest-xdist); each process then has its share of the cores.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

if "PYTEST_XDIST_WORKER_COUNT" in os.environ:  # before torch is imported, for what tests start, too
    _share = (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, _share)))

# What a processor is faster with is no part of what is tested.
os.environ.setdefault("REPAINT_PRECISION", "float32")

from hypothesis import HealthCheck, settings

ARTWORKS = Path(__file__).resolve().parents[2] / "shared" / "artworks"

# A busy machine is no failure.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

_skipped_needing_artworks: list[str] = []


@pytest.fixture(scope="session")
def artworks() -> Path:
    """The folder with train/ and test/, a folder a class in each. Mark tests needs_artworks."""
    if not ARTWORKS.is_dir():
        pytest.skip(f"no artworks at {ARTWORKS}")
    return ARTWORKS


@pytest.fixture(scope="session", autouse=True)
def no_downloads() -> Iterator[None]:
    """LPIPS would fetch its backbone, 230 MB, where there is a network."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("https_proxy", "HTTPS_PROXY"):
            patch.setenv(name, "http://127.0.0.1:9")  # where nobody listens
        yield


# Last, the dearest first: so both processes of `make test` end at about the same time, and no other
# file comes after one that leaves a browser's event loop in its process.
_BROWSER = ["page", "static_page", "friend", "views", "lost", "clip"]


def _turn(item: pytest.Item) -> int:
    """Files of a smaller one come first; among equals it stays as it was collected."""
    if item.path.parent.name != "browser":
        return 0
    name = item.path.stem.removeprefix("test_")
    return 1 + (_BROWSER.index(name) if name in _BROWSER else 0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_turn)
    if ARTWORKS.is_dir():
        return
    absent = pytest.mark.skip(reason=f"no artworks at {ARTWORKS}")
    for item in items:
        if item.get_closest_marker("needs_artworks"):
            item.add_marker(absent)


_NEEDING = "needs_artworks"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Told of every report, also of other processes' by the one that ends the run."""
    if report.skipped and not hasattr(report, "wasxfail") and _NEEDING in report.keywords:
        _skipped_needing_artworks.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    # A skip is right on a machine without the paintings. Where they are, it would hide a
    # missing dependency behind a green run.
    if ARTWORKS.is_dir() and _skipped_needing_artworks:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter) -> None:
    if ARTWORKS.is_dir():
        for nodeid in _skipped_needing_artworks:
            terminalreporter.write_line(
                f"FAILED {nodeid}: skipped, although the artworks are there", red=True
            )
