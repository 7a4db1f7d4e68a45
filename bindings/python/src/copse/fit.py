# SPDX-License-Identifier: MIT
"""What `fit` returns, and what it shows while it trains."""
from __future__ import annotations

import importlib
import math
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Literal, Mapping, Optional, Sequence, Union

Logs = Mapping[str, float]
Callback = Callable[[int, Logs], object]
Callbacks = Union[Callback, Sequence[Callback]]
Verbose = Union[bool, Literal[0, 1, 2, "auto"]]

INTERVAL = 0.1  # seconds between two looks of a bar


@dataclass
class History:
    """`epoch` has the numbers of the epochs, from 0; `history` for each name the means of each epoch: "loss", what the
    loss function reports, and with validation data "val_loss" and so on. Training means are computed while the
    variables change. `best_epoch` has the lowest validation loss, where fit looked for it; it counts from 0 as
    `epoch` does (in C from 1), so `history["val_loss"][best_epoch]` is that loss."""

    epoch: list[int] = field(default_factory=list)
    history: dict[str, list[float]] = field(default_factory=dict)
    best_epoch: Optional[int] = None

    def add(self, epoch: int, logs: Logs) -> None:
        self.epoch.append(epoch)
        for name, value in logs.items():
            column = self.history.setdefault(name, [])
            column += [math.nan] * (len(self.epoch) - 1 - len(column))  # of epochs without it
            column.append(value)


class Means:
    """Means over examples of losses and reports."""

    def __init__(self) -> None:
        self.examples = 0
        self._sums: dict[str, float] = {}

    def add(self, loss: float, reports: Logs, examples: int) -> None:
        self.examples += examples
        for name, value in {**reports, "loss": loss}.items():
            self._sums[name] = self._sums.get(name, 0.0) + value * examples

    def logs(self, prefix: str = "") -> dict[str, float]:
        """The loss first."""
        if not self.examples:
            return {}
        names = ["loss", *(n for n in self._sums if n != "loss")]
        return {prefix + n: self._sums[n] / self.examples for n in names}


class _Terminal:
    """A line of a terminal that is written again and again."""

    def show(self, text: str, is_done: bool, share: float) -> None:
        import shutil
        width = shutil.get_terminal_size().columns - 1
        if not is_done:
            filled = round(20 * share)
            text = f"[{'=' * filled}{'.' * (20 - filled)}] {text}"
        sys.stderr.write("\r" + text[:width].ljust(width) + ("\n" if is_done else ""))
        sys.stderr.flush()

    def close(self) -> None:
        sys.stderr.write("\n")


class _Lines:
    """A line for each epoch."""

    def show(self, text: str, is_done: bool, share: float) -> None:
        if is_done:
            print(text, file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


class _Notebook:
    """An output of a cell, which changes: lines of complete epochs, and a bar."""

    def __init__(self, display: Any, html_type: Any) -> None:
        import html
        self._html, self._escape, self._lines = html_type, html.escape, ""
        self._output = display(html_type(""), display_id=True)

    def show(self, text: str, is_done: bool, share: float) -> None:
        line, bar = self._escape(text), ""
        if is_done:
            self._lines += line + "\n"
        else:
            bar = f'<progress value="{share:.3f}" max="1"></progress> {line}'
        self._output.update(self._html(f"<pre>{self._lines}</pre>{bar}"))

    def close(self) -> None:
        pass


def _place(verbose: Verbose) -> Union[_Terminal, _Lines, _Notebook, None]:
    if not verbose:
        return None
    if verbose == 2 and verbose is not True:
        return _Lines()
    found = sys.modules.get("IPython")
    shell = found.get_ipython() if found else None
    if hasattr(shell, "kernel"):
        shown = importlib.import_module("IPython.display")
        return _Notebook(shown.display, shown.HTML)
    if sys.stderr is not None and sys.stderr.isatty():
        return _Terminal()
    return None if verbose == "auto" else _Lines()


class Progress:
    """Shows epochs and batches. verbose: False or 0 nothing; True or 1 a bar on stderr or in a notebook, a line for
    each epoch where stderr is no terminal; 2 a line for each epoch; "auto" a bar, or nothing without a terminal."""

    def __init__(self, verbose: Verbose, epochs: int, batches: int) -> None:
        self._place, self._epochs, self._batches = _place(verbose), epochs, batches
        self._is_open, self._next = False, 0.0

    def compiling(self, device: str, done: int, total: int) -> None:
        """Kernels of a device that a driver compiles, which may take seconds before the first batch."""
        if self._place is not None and total and done < total:
            self._is_open = True
            self._place.show(f"{device}: compiling kernels {done}/{total}", False, done / total)

    def batch(self, epoch: int, done: int, logs: Logs) -> None:
        if self._place is None or (now := time.monotonic()) < self._next:
            return
        self._next, self._is_open = now + INTERVAL, True
        self._place.show(f"{self._title(epoch)} {done}/{self._batches} {_text(logs)}", False,
                         min(1.0, done / max(1, self._batches)))

    def epoch(self, epoch: int, logs: Logs) -> None:
        self._next, self._is_open = 0.0, False
        if self._place is not None:
            self._place.show(f"{self._title(epoch)}  {_text(logs)}", True, 1.0)

    def ended(self, how: str) -> None:
        """All epochs are complete. how: why no more follow, and whose values are kept; or ""."""
        if self._place is not None and how:
            self._place.show(how, True, 1.0)

    def close(self) -> None:
        """Training has ended, perhaps in the middle of an epoch."""
        if self._place is not None and self._is_open:
            self._place.close()

    def _title(self, epoch: int) -> str:
        return f"epoch {epoch + 1}/{self._epochs}"


def _text(logs: Logs) -> str:
    return "  ".join(f"{name} {value:.4g}" for name, value in logs.items())


def tags(logs: Logs) -> dict[str, float]:
    """Names in event files, as `copse train --logdir` writes them: "loss/train", "loss/held out"."""
    return {f"{n[4:]}/held out" if n.startswith("val_") else f"{n}/train": value for n, value in logs.items()}


def listed(callbacks: Optional[Callbacks]) -> Sequence[Callback]:
    """Callbacks as a sequence; one may be given by itself."""
    if callbacks is None:
        return ()
    return [callbacks] if callable(callbacks) else callbacks
