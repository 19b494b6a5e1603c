//! Tables that fit the terminal: the least important columns are dropped first, never the last one.
//!
//! Start at [`Table`]. A table that fits is unchanged. Its creator decides what is dropped otherwise.

use crate::style::Tone;
use crate::text::{self, wrap};

/// Rows with aligned cells below a header.
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Number of spaces between two columns.
    pub(crate) gap: usize,
    /// The parts to drop on a narrow terminal, in order.
    pub(crate) drop_order: Vec<DropRule>,
}

#[derive(Clone, Copy)]
pub(crate) struct Column {
    head: &'static str,
    /// Minimum width, if there is room.
    least: usize,
    is_number: bool,
}

impl Column {
    pub(crate) fn text(head: &'static str, least: usize) -> Self {
        Self { head, least, is_number: false }
    }

    pub(crate) fn number(head: &'static str, least: usize) -> Self {
        Self { head, least, is_number: true }
    }
}

/// A part that a table can drop.
#[derive(Clone, Copy)]
pub(crate) struct DropRule {
    what: Droppable,
    /// Drops the part if the last column has less room than this, or than it needs if `None`.
    room: Option<usize>,
}

#[derive(Clone, Copy)]
enum Droppable {
    /// All but one of the spaces between columns.
    Spaces,
    Column(&'static str),
}

impl DropRule {
    pub(crate) fn spaces() -> Self {
        Self { what: Droppable::Spaces, room: None }
    }

    /// Drops a column if the last one has less room than it needs.
    pub(crate) fn column(head: &'static str) -> Self {
        Self { what: Droppable::Column(head), room: None }
    }

    /// Drops a column if the last one has less room than `room`.
    pub(crate) fn column_for(head: &'static str, room: usize) -> Self {
        Self { what: Droppable::Column(head), room: Some(room) }
    }
}

/// The remaining columns of a table, their widths, and the gap.
struct Layout {
    columns: Vec<usize>,
    widths: Vec<usize>,
    gap: usize,
}

impl Layout {
    /// Returns the offset of the last column.
    fn last(&self) -> usize {
        let others = self.columns.len().saturating_sub(1);
        self.columns.iter().take(others).map(|column| self.widths[*column] + self.gap).sum()
    }
}

impl Table {
    /// Returns one line per row without cutting, the header first, and the offset of the last column.
    pub(crate) fn lines(&self, width: usize) -> (usize, Vec<String>) {
        let layout = self.layout(width);
        (layout.last(), self.drawn(&layout, &layout.columns))
    }

    /// Returns lines whose last column is text that wraps if it does not fit.
    pub(crate) fn wrapped(&self, width: usize) -> Vec<String> {
        let (last, lines) = self.lines(width);
        lines.iter().map(|line| wrap(line, last, width)).collect()
    }

    /// Returns lines in which columns that do not fit form further tables below, each with the first column.
    pub(crate) fn folded(&self, width: usize) -> Vec<String> {
        let layout = self.layout(width);
        let Some((first, others)) = layout.columns.split_first() else { return Vec::new() };
        let mut parts: Vec<Vec<usize>> = vec![vec![*first]];
        let mut taken = layout.widths[*first];
        for column in others {
            let needed = layout.gap + layout.widths[*column];
            let part = parts.last_mut().expect("there is always one");
            if part.len() > 1 && taken + needed > width {
                taken = layout.widths[*first];
                parts.push(vec![*first, *column]);
            } else {
                part.push(*column);
            }
            taken += needed;
        }
        let drawn: Vec<_> = parts.iter().map(|columns| self.drawn(&layout, columns)).collect();
        drawn.join(&String::new())
    }

    fn layout(&self, width: usize) -> Layout {
        let columns: Vec<usize> = (0..self.columns.len()).collect();
        let widths = columns.iter().map(|column| self.needed(*column).max(self.columns[*column].least));
        let mut layout = Layout { widths: widths.collect(), columns, gap: self.gap };
        let needed = self.columns.len().checked_sub(1).map_or(0, |last| self.needed(last));
        for DropRule { what, room } in &self.drop_order {
            if layout.last().saturating_add(room.unwrap_or(needed)) <= width {
                continue;
            }
            match what {
                Droppable::Spaces => {
                    layout.gap = 1;
                    layout.widths = (0..self.columns.len()).map(|column| self.needed(column)).collect();
                }
                Droppable::Column(head) => {
                    layout.columns.retain(|column| self.columns[*column].head != *head)
                }
            }
        }
        layout
    }

    /// Returns the width of a column's widest cell.
    fn needed(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(String::as_str);
        cells.chain([self.columns[column].head]).map(text::columns).max().unwrap_or_default()
    }

    fn drawn(&self, layout: &Layout, columns: &[usize]) -> Vec<String> {
        let line = |cell: &dyn Fn(usize) -> String| {
            let cells = columns.iter().map(|column| {
                let text = cell(*column);
                let padding = " ".repeat(layout.widths[*column].saturating_sub(text::columns(&text)));
                if self.columns[*column].is_number { padding + &text } else { text + &padding }
            });
            cells.collect::<Vec<_>>().join(&" ".repeat(layout.gap)).trim_end().to_owned()
        };
        let head = line(&|column| Tone::Strong.paint(self.columns[column].head));
        let rows = self.rows.iter().map(|row| line(&|column| row.get(column).cloned().unwrap_or_default()));
        std::iter::once(head).chain(rows).collect()
    }
}
