"""Whether the file system of an output directory can take a run: room for its recordings, and names and paths of the lengths it makes.

Looks only, writes nothing; a folder that is not there yet is judged by the nearest one that is. May import the standard library and
`layout`. Rules: artifacts page of the specification ("Scenario directory").
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from voiceeval_engine.session import layout

OTHER_BYTES = 2**20
"""What a scenario leaves beside its recording, roughly: logs, contexts, a database."""
_MAX_RECORDING_BYTES = 2**32
_FRAME_BYTES = 4
"""Two channels of 16 bits."""
_TIMESTAMP = "20260618_072325"
_LONGEST_TAG = layout.retry_tag(9, _TIMESTAMP)
_INNER_BYTES = 64
"""The longest path in a scenario's folder, its temporary name included, is shorter."""


def nearest_folder(folder: Path) -> Path:
    """`folder`, or the nearest above it that is there."""
    absolute = folder.absolute()
    return next((each for each in (absolute, *absolute.parents) if each.exists()), Path(absolute.anchor))


def needed_bytes(durations: Iterable[float], rate: int) -> int:
    """At most so much is written for conversations of these durations (s) recorded at `rate` Hz."""
    return sum(OTHER_BYTES + min(_MAX_RECORDING_BYTES, int(seconds * rate) * _FRAME_BYTES) for seconds in durations)


def free_bytes(folder: Path) -> int:
    """What this user can still write there. Raises OSError."""
    return shutil.disk_usage(nearest_folder(folder)).free


def unfit_names(output_dir: Path, names: Iterable[str]) -> dict[str, str]:
    """The scenarios whose folder, or the one of a discarded attempt, cannot be made there, and why. Raises OSError."""
    place = nearest_folder(output_dir)
    longest_name, longest_path = os.pathconf(place, "PC_NAME_MAX"), os.pathconf(place, "PC_PATH_MAX")
    session = len(os.fsencode(layout.session_dir(output_dir.absolute(), _TIMESTAMP)))
    found = {}
    for name in names:
        size = len(layout.killed_name(name, _LONGEST_TAG).encode())
        if size > longest_name:
            found[name] = f"a discarded attempt's folder would have a name of {size} bytes, the file system takes {longest_name}"
        elif session + size + _INNER_BYTES >= longest_path:
            found[name] = f"the paths of its files would be longer than {longest_path} bytes"
    return found
