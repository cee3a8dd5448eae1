"""The cyclic garbage collector, kept from work that makes much and drops nothing. May import the standard library only; every floor may
import this.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """No collection inside: it would walk the growing heap again and again and find nothing, for most of the time of a large file."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
