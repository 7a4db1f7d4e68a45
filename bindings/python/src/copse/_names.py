# SPDX-License-Identifier: MIT
"""Names of options: a wrong one is a TypeError that says which name was meant."""
from __future__ import annotations

import functools
from itertools import chain
from numbers import Integral
from typing import Any, Callable, Iterable, Mapping, TypeVar, cast

from .errors import ArgumentError

F = TypeVar("F", bound=Callable[..., Any])


def check_names(where: str, given: Iterable[str], known: Iterable[str], hints: Mapping[str, str] = {}) -> None:
    """Refuse a name that is not known. hints: what to say of a name."""
    for name in given:
        if name in hints:
            raise TypeError(f"{where}() takes no '{name}': {hints[name]}")
        if name not in known:
            import difflib
            near = difflib.get_close_matches(name, [k for k in known if not k.startswith("_")], 1)
            raise TypeError(f"{where}() got an unexpected keyword argument '{name}'"
                            + (f": did you mean '{near[0]}'?" if near else ""))


COUNTS = frozenset(("seed", "patience", "folds", "fold", "steps", "prefetch", "length", "top_k"))


def check_counts(given: Iterable[tuple[str, Any]]) -> None:
    """Refuse a negative number where the library counts; cffi would not say of which option."""
    for name, value in given:
        if name in COUNTS and isinstance(value, Integral) and int(value) < 0:
            raise ArgumentError(f"{name} is {value}: at least 0")


def named_options(*groups: Any, **hints: str) -> Callable[[F], F]:
    """Decorator: the options of a function are its parameters and the keys of these TypedDicts. hints: as of check_names."""
    def decorate(f: F) -> F:
        code = f.__code__
        positional = code.co_varnames[:code.co_argcount]
        known = [n for n in code.co_varnames[:code.co_argcount + code.co_kwonlyargcount] if n not in ("self", "cls")]
        known += [key for g in groups for key in g.__annotations__]
        where = f.__qualname__.replace(".__init__", "")

        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            check_names(where, kwargs, known, hints)
            check_counts(chain(zip(positional, args), kwargs.items()))
            return f(*args, **kwargs)

        return cast(F, call)
    return decorate
