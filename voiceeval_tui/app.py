"""The console: a Textual app that is a window on a session and nothing more. Whatever happens to it, the run goes on.

Restores the terminal on SIGHUP and SIGTERM, which Textual does not; prints no traceback over the screen; a crash is not exit code 0.
May import Textual and everything of the console but `cli`. Rule: console page, "Two processes", "Manners".
"""

from __future__ import annotations

import os
import signal
import termios
import threading
import time
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import FrameType
from typing import ClassVar

from platformdirs import user_log_path
from rich.segment import Segment
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.filter import LineFilter, Monochrome, NoColor
from textual.screen import Screen

from voiceeval_engine.run.options import RunOptions
from voiceeval_tui.cells import drawable, to_ascii
from voiceeval_tui.engine import Engine, SocketEngine
from voiceeval_tui.screens.form import FormScreen
from voiceeval_tui.screens.home import HomeScreen
from voiceeval_tui.screens.keyed import KeyedScreen
from voiceeval_tui.screens.resume import ResumeScreen
from voiceeval_tui.screens.run import RunScreen
from voiceeval_tui.source import Source, SourceError, open_source
from voiceeval_tui.terminal_codes import clipboard, notification
from voiceeval_tui.themes import Themes, ascii_only, load_themes, to_palette, to_textual
from voiceeval_tui.widgets.pane import Pane

_COLOURS = {"truecolor": 1 << 24, "256": 256, "standard": 16}
_PATIENCE = 2.0
"""s that an orderly end may take after a signal; then the process ends anyway: a terminal that is gone blocks every write."""
_LOOK_SECONDS = 2.0
_RESTORE = b"\x1b[<u\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b[?1049l\x1b[?25h"


class AsciiOnly(LineFilter):
    """For terminals that show ASCII only: frames, marks and foreign letters get their likeness, cell for cell."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - as LineFilter says
        return [Segment(to_ascii(text), style, control) for text, style, control in segments]


class ConsoleApp(App[None]):
    """`fps` is how often the session is looked at, in a second; `notify`: ring and tell the terminal.

    Without a source it begins with the home screen; `defaults` are what new runs are filled in with. After `run`, `return_code` is the
    exit code and `crash` what broke.
    """

    CSS_PATH = "console.tcss"
    TITLE = "voiceeval-tui"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c,ctrl+q", "interrupt", "ask like q; twice leaves", show=False, priority=True, system=True),
        Binding("ctrl+z", "suspend_process", "to the shell; fg comes back", show=False, priority=True, system=True),
    ]

    def __init__(
        self,
        source: Source | None,
        engine: Engine | None = None,
        *,
        defaults: RunOptions | None = None,
        fps: float | None = None,
        notify: bool = True,
        environ: Mapping[str, str] = os.environ,
        themes: Themes | None = None,
    ) -> None:
        super().__init__()
        self.animation_level = "none"
        self.crash = ""
        self._source = source
        self._engine = engine
        self._defaults = defaults or RunOptions()
        self._fps = fps or (1.0 if environ.get("SSH_CONNECTION") else 4.0)
        self._themes = themes or load_themes()
        self._notify = notify
        self._environ = environ
        self._handlers: dict[int, object] = {}
        self._over = threading.Event()
        for theme in self._themes.by_name.values():
            self.register_theme(to_textual(theme))
        first = self._themes.first(environ, colours=_COLOURS.get(self.console.color_system or "", 16))
        self.palette = to_palette(self._themes.by_name[first])
        self.theme = first
        if self.no_color:  # Textual would send shades of grey under a theme that is not the terminal's own
            self._filters = [NoColor() if isinstance(each, Monochrome) else each for each in self._filters]
        if ascii_only(environ):
            self._filters.append(AsciiOnly())

    def on_mount(self) -> None:
        if self._themes.problems:
            self.notify("\n".join(map(drawable, self._themes.problems)), severity="warning", timeout=10, markup=False)
        if not self.is_headless and threading.current_thread() is threading.main_thread():
            for number in (signal.SIGHUP, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, self._leave)
            threading.Thread(target=self._watch_terminal, daemon=True).start()

    def get_default_screen(self) -> Screen[None]:
        """The session's, or the home screen."""
        return HomeScreen(self._defaults) if self._source is None else self._run_screen(self._source, self._engine)

    def on_home_screen_opened(self, message: HomeScreen.Opened) -> None:
        """A session over the home screen."""
        try:
            self.push_screen(self._run_screen(open_source(message.session)))
        except (SourceError, OSError) as error:
            self.notify(drawable(str(error)), severity="error", markup=False)

    def on_run_screen_home_wanted(self, message: RunScreen.HomeWanted) -> None:
        """Back to the home screen, or to that of the session's folder; Textual cannot switch from the screen that it began with."""
        if any(isinstance(screen, HomeScreen) for screen in self.screen_stack):
            self.pop_screen()
        else:
            self.push_screen(HomeScreen(replace(self._defaults, output_dir=message.output_dir)))

    def _run_screen(self, source: Source, engine: Engine | None = None) -> RunScreen:
        screen = RunScreen(source, engine or SocketEngine(source.session), 1.0 / self._fps)
        for problem in self._themes.problems:
            screen.view.note("WARNING", problem)
        return screen

    def on_unmount(self) -> None:
        self._over.set()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def action_interrupt(self) -> None:
        """Ctrl+C: ask as `q` does; a second time it leaves, and the run goes on."""
        if isinstance(self.screen, RunScreen):
            self.screen.do_quit()
        elif isinstance(self.screen, FormScreen | ResumeScreen):
            self.screen.do_leave()
        else:
            self.exit()

    def action_next_theme(self) -> None:
        self.theme = self._themes.after(self.theme)

    def copy_to_clipboard(self, text: str) -> None:
        """As Textual, and through tmux and screen too; a text that is too long is cut."""
        self._clipboard = text
        self._send(clipboard(text, self._environ))

    def on_run_screen_notable(self, message: RunScreen.Notable) -> None:
        """A bell and a notification, unless they are switched off."""
        if self._notify:
            self._send(notification(f"voiceeval-tui: {message.words}", self._environ))

    def _send(self, sequence: str) -> None:
        """To the terminal between two frames, through the driver: nothing else may write there."""
        if self._driver is not None:
            self._driver.write(sequence)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What Ctrl+P lists: the actions that apply, from their registry."""
        for action in screen.offered() if isinstance(screen, KeyedScreen) else ():
            yield SystemCommand(
                f"{action.name.replace('_', ' ')}  ({action.key})", action.help, getattr(screen, f"do_{action.name}")
            )

    def watch_theme(self, name: str) -> None:
        """Panes paint with the palette."""
        if name in self._themes.by_name:
            self.palette = to_palette(self._themes.by_name[name])
        for screen in self.screen_stack if self._running else ():
            for pane in screen.query(Pane):
                pane.refresh()

    def _leave(self, number: int, _: FrameType | None) -> None:
        """A signal: end in order, or anyway. A handler of Python's own, because the loop may hang in a write to the terminal."""
        threading.Thread(target=self._end_anyway, args=(128 + number,), daemon=True).start()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.exit, None, 128 + number)

    def _watch_terminal(self) -> None:
        """A terminal may go away without a signal (its leader ignores them); Textual then spins on reads that give nothing."""
        while not self._over.wait(_LOOK_SECONDS):
            try:
                os.tcgetpgrp(0)
            except OSError:
                self._leave(signal.SIGHUP, None)
                return

    def _end_anyway(self, code: int) -> None:
        time.sleep(_PATIENCE)
        try:
            terminal = os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
            termios.tcflush(terminal, termios.TCOFLUSH)
            os.write(terminal, _RESTORE)
            if (before := getattr(self._driver, "attrs_before", None)) is not None:
                termios.tcsetattr(terminal, termios.TCSANOW, before)
        except (OSError, termios.error):
            pass  # the terminal is gone
        finally:
            os._exit(code)

    def _fatal_error(self) -> None:
        """Textual prints a traceback with all locals, the judge's key perhaps among them; ours goes to a file, and a line tells."""
        text = traceback.format_exc()
        self.crash = f"the console failed: {text.strip().splitlines()[-1]}; the run is not touched"
        try:
            path = user_log_path("voiceeval-tui", ensure_exists=True) / "console_crash.txt"
            path.write_text(text, errors="backslashreplace")
            self.crash += f"; details in {path}"
        except OSError:
            pass  # the line above is all that can be told
        self._close_messages_no_wait()
