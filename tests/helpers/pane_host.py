"""An app with nothing but the panes under test, one below the other."""

from __future__ import annotations

from textual.app import App, ComposeResult

from voiceeval_tui.themes import Palette, load_themes, to_textual
from voiceeval_tui.widgets.pane import ListPane, Pane

THEME = load_themes().by_name["voiceeval-dark"]


class Host(App[None]):
    """Each pane has `size` cells, its upper edge and scroll bar among them. What panes sent is in `failed` and `chosen`."""

    def __init__(self, *panes: Pane, size: tuple[int, int] = (30, 10)) -> None:
        super().__init__()
        self.palette = Palette(THEME)
        self.register_theme(to_textual(THEME))
        self.theme = THEME.name
        self.panes = panes
        self.pane_size = size
        self.failed: list[str] = []
        self.chosen: list[tuple[str, bool]] = []

    def compose(self) -> ComposeResult:
        for number, pane in enumerate(self.panes):
            pane.styles.offset = (0, number * self.pane_size[1])
            pane.styles.width, pane.styles.height = self.pane_size
            yield pane

    def on_pane_failed(self, message: Pane.Failed) -> None:
        self.failed.append(message.problem)

    def on_list_pane_chosen(self, message: ListPane.Chosen) -> None:
        self.chosen.append((message.key, message.opened))

    def shown(self) -> list[str]:
        """The terminal's lines as text."""
        return ["".join(segment.text for segment in strip) for strip in self.screen._compositor.render_strips()]
