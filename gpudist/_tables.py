"""Tables for a terminal: rich's where rich is installed and the output is a terminal, else text."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TextIO

_GAP = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading and how its cells stand.

    Parameters
    ----------
    title : str
        What stands above the column; empty headings are fine.
    right : bool
        Whether the cells are set flush right, as numbers are.
    width : int
        The least width, in characters, so that tables below each other line up.
    wrap : bool
        Whether rich may break long cells into lines; plain text never does.
    """

    title: str
    right: bool = False
    width: int = 0
    wrap: bool = False


@dataclass(slots=True)
class Table:
    """Rows of text under headings.

    Parameters
    ----------
    columns : sequence of Column
        The headings.
    title : str
        One line above the table, or an empty string.
    """

    columns: Sequence[Column]
    title: str = ""
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        """Append a row; each cell is turned into text.

        Parameters
        ----------
        *cells : object
            As many as there are columns.
        """
        if len(cells) != len(self.columns):
            raise ValueError(f"a row of {len(cells)} cells in a table of {len(self.columns)}")
        self.rows.append(tuple(str(cell) for cell in cells))

    @property
    def titles(self) -> tuple[str, ...]:
        """The columns' titles."""
        return tuple(column.title for column in self.columns)

    def plain(self) -> str:
        """Lay the table out as plain text.

        Returns
        -------
        str
            Lines without a newline after the last; none ends in a space.
        """
        widths = [
            max(column.width, *(len(row[i]) for row in (self.titles, *self.rows)))
            for i, column in enumerate(self.columns)
        ]

        def line(cells: Sequence[str]) -> str:
            set_cells = (
                cell.rjust(width) if column.right else cell.ljust(width)
                for cell, width, column in zip(cells, widths, self.columns, strict=True)
            )
            return _GAP.join(set_cells).rstrip()

        lines = [self.title] if self.title else []
        if any(self.titles):
            lines += [line(self.titles), _GAP.join("-" * width for width in widths)]
        return "\n".join(lines + [line(row) for row in self.rows])

    def html(self) -> str:
        """Lay the table out as HTML, for notebooks.

        Returns
        -------
        str
            A table element, its title as the caption.
        """

        def line(cells: Sequence[str], tag: str) -> str:
            made = (
                f'<{tag} style="text-align:{"right" if column.right else "left"}">'
                f"{escape(cell)}</{tag}>"
                for cell, column in zip(cells, self.columns, strict=True)
            )
            return f"<tr>{''.join(made)}</tr>"

        caption = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        body = "".join(line(row, "td") for row in self.rows)
        return f"<table>{caption}{line(self.titles, 'th')}{body}</table>"

    def markdown(self) -> str:
        """Lay the table out as GitHub's Markdown, without its title.

        Returns
        -------
        str
            Lines without a newline after the last.
        """

        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

        rule = "|" + "|".join("---:" if column.right else "---" for column in self.columns) + "|"
        return "\n".join([line(self.titles), rule, *map(line, self.rows)])


def show(table: Table, file: TextIO | None = None) -> None:
    """Print a table, followed by an empty line.

    Parameters
    ----------
    table : Table
        What to print.
    file : text stream, optional
        Where to; standard output by default.
    """
    stream = sys.stdout if file is None else file
    if stream is None or not (stream.isatty() and _show_rich(table, stream)):
        print(table.plain(), end="\n\n", file=stream)


def _show_rich(table: Table, stream: TextIO) -> bool:
    """Print with rich; false if it is not installed."""
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text
    except ImportError:
        return False
    rich_table = RichTable(
        title=Text(table.title, style="bold") if table.title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD if any(table.titles) else None,
        show_header=any(table.titles),
        pad_edge=False,
    )
    for column in table.columns:
        rich_table.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            min_width=column.width or None,
            no_wrap=not column.wrap,
            overflow="fold" if column.wrap else "ellipsis",
        )
    for row in table.rows:
        rich_table.add_row(*map(Text, row))
    console = Console(file=stream)
    console.print(rich_table)
    console.print()
    return True
