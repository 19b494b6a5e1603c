//! Tables that fit the screen: what counts least is given up first, and never the last column.
//!
//! Start at [`Table`]. A table that fits stands as it is; what is given up where it does not, its maker says.

use crate::style::Tone;
use crate::text::{self, wrap};

/// Rows below a head, their cells under each other.
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<String>>,
    /// Spaces between two columns.
    pub(crate) gap: usize,
    /// What is given up where the screen is narrow, first to last.
    pub(crate) drop_order: Vec<DropRule>,
}

#[derive(Clone, Copy)]
pub(crate) struct Column {
    head: &'static str,
    /// So wide it is at least, where there is room.
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

/// Something that a table can do without.
#[derive(Clone, Copy)]
pub(crate) struct DropRule {
    what: Droppable,
    /// It goes where the last column would have less room than this; nothing stands for all that it needs.
    room: Option<usize>,
}

#[derive(Clone, Copy)]
enum Droppable {
    /// All spaces but one between two columns.
    Spaces,
    Column(&'static str),
}

impl DropRule {
    pub(crate) fn spaces() -> Self {
        Self { what: Droppable::Spaces, room: None }
    }

    /// A column, for all that the last one needs.
    pub(crate) fn column(head: &'static str) -> Self {
        Self { what: Droppable::Column(head), room: None }
    }

    /// A column, for so much room for the last one.
    pub(crate) fn column_for(head: &'static str, room: usize) -> Self {
        Self { what: Droppable::Column(head), room: Some(room) }
    }
}

/// What is left of a table: which columns, how wide each is, and the spaces between them.
struct Layout {
    columns: Vec<usize>,
    widths: Vec<usize>,
    gap: usize,
}

impl Layout {
    /// Where the last column begins.
    fn last(&self) -> usize {
        let others = self.columns.len().saturating_sub(1);
        self.columns.iter().take(others).map(|column| self.widths[*column] + self.gap).sum()
    }
}

impl Table {
    /// A line a row, the head first, as long as it is; and where the last column begins.
    pub(crate) fn lines(&self, width: usize) -> (usize, Vec<String>) {
        let layout = self.layout(width);
        (layout.last(), self.drawn(&layout, &layout.columns))
    }

    /// The same where the last column is a text: it goes on below where it does not fit.
    pub(crate) fn wrapped(&self, width: usize) -> Vec<String> {
        let (last, lines) = self.lines(width);
        lines.iter().map(|line| wrap(line, last, width)).collect()
    }

    /// The same where all are numbers and words: columns that do not fit stand in a table below, each row with its
    /// first cell.
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

    /// How wide the widest cell of a column is.
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
