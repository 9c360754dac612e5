"""The story of a run: step after step, to the end or to a signal, and what is saved of it."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from tqdm import tqdm

from app.training.failures import DivergedError, NotFiniteError, SaveError, StoppedError
from app.training.run import Run
from app.training.saving import choose_codes, save

LOG_STEPS = 10


def train(run: Run) -> None:
    """Runs to the end, or to the first signal to stop, and saves.

    Raises:
        StoppedError: a signal came; the message says what is saved.
        SaveError: the last files could not be written.
        TrainingError: a loss that is not finite, or weights that are not worth saving.
    """
    if run.clock.step == 0 and run.processes.first:
        run.files.begin_log()
    with _signals() as caught, _bar(run) as bar:
        stop = _steps(run, bar, caught)
        bar.set_description("saving")
        lost = ""
        try:
            if run.processes.first:
                save(run)
                if not stop and run.settings.chooses_codes:
                    choose_codes(run)
        except DivergedError as error:
            if not stop:
                raise
            lost = str(error)
        finally:
            if stop:
                # The one that writes is not left alone: torchrun ends it with the others.
                run.processes.wait()
    if stop:
        raise StoppedError(
            f"stopped at step {run.clock.step}, "
            + (
                f"without saving: {lost}"
                if lost
                else f"all is saved; --resume {run.files.state} goes on"
            ),
            stop,
        )


def _steps(run: Run, bar: tqdm, caught: Sequence[int]) -> int:
    """Trains to the end (0) or to a signal (its number)."""
    clock = saved = time.monotonic()
    stop = 0
    while run.progress() < 1 and not stop:
        try:
            run.train_step(run.progress())
        except NotFiniteError:
            if run.clock.failed >= run.settings.skip_not_finite:
                raise
            run.leave_out()
        now = time.monotonic()
        seconds, number = run.clock.seconds + now - clock, caught[0] if caught else 0
        # All processes end at the same step.
        run.clock.seconds, highest = run.processes.largest(seconds, number)
        stop, clock = int(highest), now
        bar.update((run.clock.step if _by_steps(run) else round(run.clock.seconds)) - bar.n)
        if run.clock.step % LOG_STEPS == 0 and run.losses.steps:
            _log(run, bar)
        if now - saved > 60 * run.settings.checkpoint_minutes:
            if run.processes.first:
                _save_on_the_way(run)
            clock = saved = time.monotonic()
    if run.losses.steps:
        _log(run, bar)
    return stop


def _save_on_the_way(run: Run) -> None:
    try:
        save(run)
    except (SaveError, DivergedError) as error:  # a full disk may be emptied before the end
        run.processes.say(f"error: {error}; training goes on")


def _log(run: Run, bar: tqdm) -> None:
    recent = run.losses.take()
    if not run.processes.first:
        return
    shown = " ".join(f"{k} {v:.3f}" for k, v in recent.items())
    bar.set_postfix_str(f"step {run.clock.step} {shown}", refresh=False)
    names = [*sorted(asdict(run.settings.weights)), "discriminator"]
    values = [f"{recent[n]:.4f}" if n in recent else "" for n in names]
    try:
        run.files.add_to_log(
            ["step", "seconds", *names], [run.clock.step, round(run.clock.seconds), *values]
        )
    except OSError as error:
        run.processes.say(f"warning: {run.files.log}: {error.strerror}; a line of the log is lost")


def _by_steps(run: Run) -> bool:
    return run.settings.steps is not None


def _bar(run: Run) -> tqdm:
    settings, clock = run.settings, run.clock
    return tqdm(
        total=settings.steps if _by_steps(run) else round(60 * settings.minutes),
        initial=clock.step if _by_steps(run) else round(clock.seconds),
        unit="step" if _by_steps(run) else "s",
        desc="training",
        mininterval=1.0 if sys.stderr.isatty() else 30.0,
        disable=not run.processes.first,
    )


@contextmanager
def _signals() -> Iterator[list[int]]:
    """The numbers of the signals to stop that come while it is open."""
    caught: list[int] = []
    before = {
        number: signal.signal(number, lambda n, _: caught.append(n))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
