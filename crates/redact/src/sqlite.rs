//! Rows of an SQLite database that continue on other pages.
//!
//! The text of all other rows is in one piece in the file, so it is searched without this reader.

use std::ops::Range;

/// The maximum length of one row, and of all rows.
const LONGEST_ROW: usize = 8 << 20;
const MOST: usize = 64 << 20;

/// Calls `visit` with every row that continues on other pages. Returns false if there are more than are read.
pub(super) fn for_each_long_row(file: &[u8], visit: &mut dyn FnMut(&[u8])) -> bool {
    let Some(header) = file.first_chunk::<100>() else { return true };
    let size = match usize::from(u16::from_be_bytes([header[16], header[17]])) {
        1 => 65536,
        size if size.is_power_of_two() && size >= 512 => size,
        _ => return true,
    };
    let usable = size - usize::from(header[20]).min(size / 2);
    let database = Database { file, size, usable };
    let mut read = 0;
    for number in 1..=file.len() / size {
        for row in database.long_rows(number) {
            let row = database.join(row);
            read += row.len();
            if read > MOST {
                return false;
            }
            visit(&row);
        }
    }
    true
}

struct Database<'f> {
    file: &'f [u8],
    size: usize,
    usable: usize,
}

/// The start of a row on its page, and the pages with its rest.
struct LongRow {
    local: Range<usize>,
    next: usize,
    length: usize,
}

impl Database<'_> {
    /// Returns the rows on a page that continue on other pages. Pages are counted from 1.
    fn long_rows(&self, number: usize) -> Vec<LongRow> {
        const LEAF_TABLE: u8 = 0x0d;
        const LEAF_INDEX: u8 = 0x0a;
        const INNER_INDEX: u8 = 0x02;
        let page = (number - 1) * self.size;
        let head = if number == 1 { page + 100 } else { page };
        let Some(&kind) = self.file.get(head) else { return Vec::new() };
        let (pointers, child, is_table) = match kind {
            LEAF_TABLE => (head + 8, 0, true),
            LEAF_INDEX => (head + 8, 0, false),
            INNER_INDEX => (head + 12, 4, false),
            _ => return Vec::new(),
        };
        let cells = (0..self.number(head + 3)).map(|cell| self.number(pointers + 2 * cell));
        cells.filter_map(|cell| self.long_row(page, page + cell + child, is_table)).collect()
    }

    fn long_row(&self, page: usize, at: usize, is_table: bool) -> Option<LongRow> {
        let (length, at) = self.varint(at)?;
        let at = if is_table { self.varint(at)?.1 } else { at };
        let most = if is_table { self.usable - 35 } else { (self.usable - 12) * 64 / 255 - 23 };
        if length <= most {
            return None;
        }
        let least = (self.usable - 12) * 32 / 255 - 23;
        let fitting = least + (length - least) % (self.usable - 4);
        let local = at..at + if fitting <= most { fitting } else { least };
        if local.end + 4 > (page + self.size).min(self.file.len()) {
            return None;
        }
        Some(LongRow { next: self.page_number(local.end)?, local, length })
    }

    /// Joins the parts of a row.
    fn join(&self, row: LongRow) -> Vec<u8> {
        let length = row.length.min(LONGEST_ROW);
        let mut bytes = self.file[row.local].to_vec();
        let mut next = row.next;
        while next > 0 && bytes.len() < length {
            let page = (next - 1).saturating_mul(self.size);
            let Some(part) = self.file.get(page.saturating_add(4)..page.saturating_add(self.usable)) else {
                break;
            };
            bytes.extend_from_slice(part);
            next = self.page_number(page).unwrap_or(0);
        }
        bytes
    }

    fn number(&self, at: usize) -> usize {
        self.file.get(at..at + 2).map_or(0, |bytes| usize::from(bytes[0]) << 8 | usize::from(bytes[1]))
    }

    fn page_number(&self, at: usize) -> Option<usize> {
        let bytes = self.file.get(at..)?.first_chunk::<4>()?;
        Some(u32::from_be_bytes(*bytes) as usize)
    }

    /// Reads a number of variable length. Returns it and the offset after it.
    fn varint(&self, at: usize) -> Option<(usize, usize)> {
        let mut value = 0usize;
        for (index, &byte) in self.file.get(at..)?.iter().take(9).enumerate() {
            if index == 8 {
                return Some((value << 8 | usize::from(byte), at + 9));
            }
            value = value << 7 | usize::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Some((value, at + index + 1));
            }
        }
        None
    }
}
