"""Work without collections of garbage: they are back afterwards, however it ended, and only where they were before."""

from __future__ import annotations

import gc

import pytest

from voiceeval_engine.garbage import uncollected


@pytest.mark.parametrize("collecting", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_collections_are_as_they_were_when_the_work_is_done(collecting: bool, fails: bool) -> None:
    @uncollected()
    def work() -> None:
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
        if fails:
            raise ValueError("it broke")

    try:
        if not collecting:
            gc.disable()
        if fails:
            with pytest.raises(ValueError, match="it broke"):
                work()
        else:
            work()
        assert gc.isenabled() == collecting
    finally:
        gc.enable()
