# SPDX-License-Identifier: MIT
"""nearest_runs.py: which run of a reference judges the losses of a training.

Run 0 is from the given weights, the others from weights that are changed by one rounding each. Rounding decides about a
loss only if the runs themselves differ by more than the limit: a value is then on another side of a kink. Only such a
difference lets another run than the first judge.
"""


def differences(got, want):
    """Of each loss, relative; what is not finite on one side alone differs infinitely."""
    return [0.0 if g == w else d if (d := abs(g - w) / abs(w) if w else float("inf")) == d else float("inf")
            for g, w in zip(got, want)]


def nearest_run(got, run, count, limit):
    """The number of the run: 0 if its losses agree with `got` within the limit, or if no other run differs from it by
    more; else the first that agrees, or 0. `run` (number) gives the losses of one, from 0 to `count` - 1."""
    first = run(0)
    if max(differences(got, first)) <= limit:
        return 0
    agreeing, has_kink = 0, False
    for i in range(1, count):
        has_kink = has_kink or max(differences(run(i), first)) > limit
        if not agreeing and max(differences(got, run(i))) <= limit:
            agreeing = i
        if agreeing and has_kink:
            return agreeing
    return 0
