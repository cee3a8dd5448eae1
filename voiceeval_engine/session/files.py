"""Files written whole or not at all, JSON that any reader can parse, and errors that say which file is bad and why.

Rules: artifacts page of the specification ("We write every file whole or not at all", ASCII-escaped JSON). May import
the standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

_PART_BYTES = 64 * 1024
_MAX_DEPTH = 100
_BYTE_ORDER_MARK = "\ufeff"
_MAX_INT_BITS = 4096
"""Python refuses to print an integer of more than 4,300 digits, and so would every writer of ours."""


class UnreadableFile(Exception):
    """A file that should hold JSON does not. `reason` is short, without the path; `missing` is true where there is no file."""

    def __init__(self, path: Path | str, reason: str, *, missing: bool = False) -> None:
        super().__init__(path, reason)
        self.path = Path(path)
        self.reason = reason
        self.missing = missing

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class UnwritableValue(ValueError):
    """A value cannot be written as JSON that every reader parses (NaN, infinity, an object of no JSON type, too deep)."""


def is_full(error: BaseException) -> bool:
    """Whether an error says that there is no room: on the disk, or in the user's share of it."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def write_atomic(path: Path, data: bytes | str | Iterator[bytes]) -> None:
    """Replace `path` by `data`, so that a reader or a crash at any moment finds the old file or the new one, whole.

    Text becomes UTF-8; a lone surrogate (bots send them) becomes its escape; parts are written as they come. Raises OSError;
    nothing is left behind then.
    """
    raw = data.encode(errors="backslashreplace") if isinstance(data, str) else data
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.writelines([raw] if isinstance(raw, bytes) else raw)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_json(path: Path, value: Any, indent: int | None = 2) -> None:
    """Write `value` atomically as ASCII-escaped JSON without a final newline, as the reference does.

    Raises UnwritableValue for what is not JSON (NaN and infinity included), OSError for what the disk refuses.
    """
    write_atomic(path, _json_text(path, value, indent))


def write_json_list(path: Path, items: Iterable[Any]) -> None:
    """Write the bytes that `write_json` writes for the list of `items`, and hold the text of one at a time: there may be thousands."""
    write_atomic(path, _list_parts(path, items))


def read_json(path: Path | str) -> Any:
    """The value that a JSON file holds. Raises UnreadableFile whenever it holds none; NaN and infinity are none.

    A preview reads 10,000 files: hence a text for a path, one decoder, and no file object.
    """
    try:
        text = _read(path).decode()
        if text.startswith(_BYTE_ORDER_MARK):
            raise ValueError("begins with a byte order mark")
        return parse_json(text)
    except (FileNotFoundError, NotADirectoryError):
        raise UnreadableFile(path, "no such file", missing=True) from None
    except OSError as error:
        raise UnreadableFile(path, error.strerror or "cannot be read") from error
    except UnicodeDecodeError as error:
        raise UnreadableFile(path, f"not UTF-8 at byte {error.start}") from error
    except ValueError as error:
        raise UnreadableFile(path, str(error)) from error


def parse_json(text: str) -> Any:
    """The value that a JSON text holds. Raises ValueError whenever it holds none; NaN and infinity are none."""
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a lost power supply. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_json_if_any(path: Path | str) -> Any:
    """As `read_json`; None where the file holds no JSON, or is not there."""
    try:
        return read_json(path)
    except UnreadableFile:
        return None


def changed_at(path: Path | str) -> int:
    """When a file was last written, ns since the epoch; 0 where there is none."""
    try:
        return os.stat(path).st_mtime_ns  # noqa: PTH116 - hundreds of sessions at a look have no time for Path
    except (OSError, ValueError):
        return 0


def size_of(paths: Iterable[Path]) -> int:
    """The bytes of those of these files that are there. Raises OSError."""
    return sum(path.stat().st_size for path in paths if path.is_file())


def json_safe(value: Any, depth: int = 0) -> Any:
    """A copy of foreign data that `write_json` accepts: what JSON has no form for becomes its text, what is too deep a note."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _MAX_INT_BITS else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth >= _MAX_DEPTH:
        return "[nested too deeply]"
    if isinstance(value, Mapping):
        return {str(json_safe(key, depth + 1)): json_safe(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_safe(item, depth + 1) for item in value]
    return repr(value)


def _json_text(path: Path, value: Any, indent: int | None) -> str:
    try:
        return json.dumps(value, indent=indent, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise UnwritableValue(f"{path.name}: {error}") from error


def _list_parts(path: Path, items: Iterable[Any]) -> Iterator[bytes]:
    before = "["
    for item in items:
        # JSON has no bare line feed inside a string: each one begins a line, which stands two further to the right in a list.
        yield (before + f"\n{_json_text(path, item, 2)}".replace("\n", "\n  ")).encode()
        before = ","
    yield b"[]" if before == "[" else b"\n]"


def _read(path: Path | str) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a session may hold a named pipe, which would be waited for
    try:
        parts = []
        while part := os.read(file, _PART_BYTES):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(file)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is no finite number")
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
