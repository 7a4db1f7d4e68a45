# SPDX-License-Identifier: MIT
"""A run of `copse conformance` in one process, up to the first case that fails. Its time is that of the processor, so that
a busy machine makes no fault."""
import dataclasses
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time

FAILED = ("FAIL", "CRASH", "TIMEOUT", "MISTRUSTED", "DEVICE_LOST")
HZ = os.sysconf("SC_CLK_TCK")
IDLE = 300.0  # seconds without a case and without use of the processor


@dataclasses.dataclass
class Outcome:
    """`how`: passed, failed, refused (it does not compile), unused, crashed, slow, idle, error (it did not run)."""
    how: str
    mode: str = ""
    op: str = ""
    case: str = ""
    text: str = ""
    cpu: float = 0.0  # seconds of the processor
    longest: float = 0.0  # ... between two cases


def cpu_of(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / HZ
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def lines_of(pipe):
    """Lines of a pipe; None after each second without one."""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        rest = b""
        while True:
            if not selector.select(1.0):
                yield None
                continue
            piece = os.read(pipe.fileno(), 65536)
            if not piece:
                return
            *whole, rest = (rest + piece).split(b"\n")
            yield from whole


def first_line(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return next((line.strip() for line in f if line.strip()), "")
    except FileNotFoundError:
        return ""


class Clock:
    """Time of the processor since the last case."""

    def __init__(self, pid):
        self.pid, self.used, self.last, self.longest = pid, 0.0, 0.0, 0.0
        self.seen = time.monotonic()

    def step(self):
        self.used = max(self.used, cpu_of(self.pid))
        self.longest = max(self.longest, self.used - self.last)

    def case(self):
        self.last, self.seen = self.used, time.monotonic()

    def is_idle(self):
        return time.monotonic() - self.seen > IDLE and self.used - self.last < 0.01 * IDLE


def is_refusal(text):
    return "build" in text or "compil" in text


def failure(event, log):
    """The outcome of a case that failed; None if it passed."""
    where = (event.get("mode", ""), event.get("op", ""), event.get("name", ""))
    report = first_line(log) if log else ""
    if event.get("verdict") == "TIMEOUT" or "did not answer" in event.get("text", ""):
        return Outcome("idle", *where, event["verdict"])  # a time of the wall
    if event.get("verdict") in FAILED:
        is_refused = is_refusal(event.get("text", ""))
        return Outcome("refused" if is_refused else "failed", *where, event["text"] if is_refused else event["verdict"])
    return Outcome("failed", *where, f"oclgrind: {report}") if report else None


def ended(code, text):
    if code == 0:
        return Outcome("passed")
    if code < 0:
        return Outcome("crashed", text=signal.Signals(-code).name)
    how = "unused" if "none of the cases uses" in text else "refused" if is_refusal(text) else "error"
    return Outcome(how, text=text[:200])


def run(command, env, limit, log=None):
    """Run the command; a case has `limit` seconds of the processor."""
    with tempfile.TemporaryFile("w+") as errors, \
         subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=env) as child:
        clock, out = Clock(child.pid), None
        try:
            for line in lines_of(child.stdout):
                clock.step()
                event = json.loads(line) if line and line.startswith(b"{") else {}
                if event.get("verdict"):
                    out = failure(event, log)
                    clock.case()
                elif clock.used - clock.last > limit:
                    out = Outcome("slow", text=f"{limit:g} s of the processor in a case")
                elif clock.is_idle():
                    out = Outcome("idle", text="no case ends")
                if out:
                    break
            if not out:
                code = child.wait()
                errors.seek(0)
                out = ended(code, errors.read())
        finally:
            child.kill()
        out.cpu, out.longest = clock.used, clock.longest
        return out
