# SPDX-License-Identifier: MIT
"""Whether the results of every kernel on a device can be trusted. The functions are in a library of their own,
copse-conformance, which the first call loads."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Optional, Sequence

from ._library import c_string, choice, conformance_lib, ffi, lib, text
from .devices import context
from .errors import Error, of
from .options import Mode, Tier

TIERS = {"quick": lib.COPSE_CONFORM_QUICK, "standard": lib.COPSE_CONFORM_STANDARD, "full": lib.COPSE_CONFORM_FULL,
         "exhaustive": lib.COPSE_CONFORM_EXHAUSTIVE}
MODES = {name[len("COPSE_CONFORM_"):].lower(): getattr(lib, name)
         for name in ("COPSE_CONFORM_RUN", "COPSE_CONFORM_GRAD", "COPSE_CONFORM_OPT", "COPSE_CONFORM_REDUCE",
                      "COPSE_CONFORM_TRAIN", "COPSE_CONFORM_BITWISE", "COPSE_CONFORM_ARGS", "COPSE_CONFORM_PERF",
                      "COPSE_CONFORM_STRESS", "COPSE_CONFORM_LIMITS", "COPSE_CONFORM_IMPORT", "COPSE_CONFORM_TUNE",
                      "COPSE_CONFORM_LAUNCH", "COPSE_CONFORM_API", "COPSE_CONFORM_COMPILE", "COPSE_CONFORM_CEILINGS")}


@dataclass(frozen=True)
class Case:
    """Result of one case. `verdict` is "PASS", "FAIL", "SKIP", ..."""

    mode: str
    op: str
    name: str
    variant: str
    device: str
    verdict: str
    metric: str
    worst: float
    limit: float
    text: str


def run(device: str, *, tier: Tier = "quick", modes: Optional[Sequence[Mode]] = None, ops: Optional[str] = None,
        on_case: Optional[Callable[[Case], None]] = None) -> dict[str, int]:
    """Run cases on a device; returns how many came to each verdict. The run is in this process: a driver that crashes
    ends it. `python -m copse conformance` isolates each device in a process of its own."""
    prover = conformance_lib()
    errors: list[BaseException] = []

    def begin(_user: Any, *_case: Any) -> bool:
        return not errors

    def result(_user: Any, r: Any) -> None:
        if on_case is None or errors:
            return
        try:
            on_case(Case(mode=text(r.mode), op=text(r.op), name=text(r.name), variant=text(r.variant),
                         device=text(r.device), verdict=text(prover.copse_verdict_name(r.verdict)), metric=text(r.metric),
                         worst=r.worst, limit=r.limit, text=text(r.text)))
        except BaseException as e:  # must not unwind through C
            errors.append(e)

    bits = 0
    for m in modes or []:
        bits |= choice("the mode", m, MODES)
    keep = (ffi.callback("copse_case_begin_fn", begin), ffi.callback("copse_case_result_fn", result),
            c_string(device), c_string(ops))
    params = ffi.new("struct copse_conformance_params *", {
        "device": keep[2], "modes": bits, "tier": choice("the tier", tier, TIERS), "ops": keep[3],
        "begin": keep[0], "result": keep[1],
    })
    summary = ffi.new("struct copse_conformance_summary *")
    status = prover.copse_conformance_run(context(), params, summary)
    if errors:
        raise errors[0]
    if status != lib.COPSE_OK:
        raise of(text(lib.copse_status_name(status)), text(lib.copse_last_error()))
    return {text(prover.copse_verdict_name(v)): summary.counts[v] for v in range(lib.COPSE_VERDICT_COUNT)
            if summary.counts[v]}
