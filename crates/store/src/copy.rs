//! Copies a fork's rows from one database to another.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use session::RunId;

use crate::StoreError;

/// The rows that a fork needs of itself and of each run it descends from: conversation, usage, requests to
/// stop.
const SHARED_ROWS: &[(&str, &str)] = &[
    ("threads", "id = (SELECT thread FROM runs WHERE id = ?1)"),
    ("runs", "id = ?1"),
    ("heads", HEADS),
    ("model_calls", "run = ?1"),
    ("messages", "run = ?1"),
    ("forks", "run = ?1"),
    ("seen_files", "run = ?1"),
    ("folder_notes", "run = ?1"),
    ("inbox", "run = ?1"),
    ("spent", "run = ?1"),
];

/// The rows that it needs of itself only.
const OWN_ROWS: &[(&str, &str)] = &[
    ("tool_calls", "run = ?1"),
    ("hook_answers", "run = ?1"),
    ("jobs", "run = ?1"),
    ("resumptions", "run = ?1"),
    ("attempts", "model_call IN (SELECT id FROM model_calls WHERE run = ?1)"),
    ("reserved_tokens", "model_call IN (SELECT id FROM model_calls WHERE run = ?1)"),
];

/// The rows to write back, in an order that satisfies references. If the fork is a job, its parent's inbox
/// entry is included.
const WRITTEN_BACK: &[(&str, &str)] = &[
    ("runs", "id = ?1"),
    ("heads", HEADS),
    ("model_calls", "run = ?1"),
    ("messages", "run = ?1"),
    ("tool_calls", "run = ?1"),
    ("attempts", "model_call IN (SELECT id FROM model_calls WHERE run = ?1)"),
    ("reserved_tokens", "model_call IN (SELECT id FROM model_calls WHERE run = ?1)"),
    ("forks", "run = ?1"),
    ("seen_files", "run = ?1"),
    ("folder_notes", "run = ?1"),
    ("hook_answers", "run = ?1"),
    ("jobs", "run = ?1"),
    ("resumptions", "run = ?1"),
    ("inbox", "job = ?1"),
];

const HEADS: &str =
    "hash IN (SELECT head FROM model_calls WHERE run = ?1 UNION SELECT head FROM forks WHERE run = ?1)";

/// Rows of a table.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) table: &'static str,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Value>>,
}

/// All rows of a fork.
#[derive(Debug)]
pub(crate) struct ForkRows(pub(crate) Vec<Rows>);

/// Copies the rows that a fork needs. The fork itself may not exist yet.
pub(crate) fn copy(from: &Connection, to: &Connection, run: &RunId, of: &RunId) -> Result<(), StoreError> {
    // Rows may refer to others that a fork does not need.
    to.pragma_update(None, "foreign_keys", false)?;
    let all = to.unchecked_transaction()?;
    let mut next = Some(of.to_string());
    let mut whose = vec![run.to_string()];
    while let Some(above) = next {
        let mut find = from.prepare_cached("SELECT parent FROM runs WHERE id = ?1")?;
        next = find.query_row([&above], |row| row.get(0)).optional()?.flatten();
        whose.push(above);
    }
    for run in &whose {
        for (table, rows) in SHARED_ROWS {
            read_rows(from, table, rows, run)?.put(&all)?;
        }
    }
    for (table, rows) in OWN_ROWS {
        read_rows(from, table, rows, run.as_str())?.put(&all)?;
    }
    // Reservations of other runs are never released in memory, so they must not block the fork.
    all.execute(
        "UPDATE spent SET (aside_microusd, aside_tokens) =
             (SELECT coalesce(sum(c.reserved_microusd), 0), coalesce(sum(t.tokens), 0)
              FROM model_calls c LEFT JOIN reserved_tokens t ON t.model_call = c.id
              WHERE c.run = ?1 AND c.status = 'asked')",
        [run.as_str()],
    )?;
    all.commit()?;
    to.pragma_update(None, "foreign_keys", true)?;
    Ok(())
}

/// Reads all rows that are written back to the disk.
pub(crate) fn fork_rows(conn: &Connection, run: &RunId) -> Result<ForkRows, StoreError> {
    let rows = WRITTEN_BACK.iter().map(|(table, rows)| read_rows(conn, table, rows, run.as_str()));
    Ok(ForkRows(rows.collect::<Result<_, _>>()?))
}

fn read_rows(conn: &Connection, table: &'static str, rows: &str, run: &str) -> Result<Rows, StoreError> {
    let mut find = conn.prepare_cached(&format!("SELECT * FROM {table} WHERE {rows}"))?;
    let columns: Vec<String> = find.column_names().map(str::to_owned).collect();
    let row = |row: &rusqlite::Row<'_>| (0..columns.len()).map(|n| row.get(n)).collect::<Result<_, _>>();
    let rows = find.query_map([run], row)?.collect::<Result<_, _>>()?;
    Ok(Rows { table, columns, rows })
}

impl Rows {
    /// Writes the rows, and updates those that exist.
    pub(crate) fn put(&self, conn: &Connection) -> Result<(), StoreError> {
        let mut insert = conn.prepare_cached(&self.sql())?;
        for row in &self.rows {
            insert.execute(params_from_iter(row))?;
        }
        Ok(())
    }

    /// Inserts the rows under new numbers. Returns pairs of old and new numbers.
    pub(crate) fn insert_renumbered(&mut self, conn: &Connection) -> Result<Vec<(Value, Value)>, StoreError> {
        let mut insert = conn.prepare_cached(&self.sql())?;
        let mut numbers = Vec::new();
        for row in &mut self.rows {
            let old = std::mem::replace(&mut row[0], Value::Null);
            insert.execute(params_from_iter(&*row))?;
            numbers.push((old, Value::Integer(conn.last_insert_rowid())));
        }
        Ok(numbers)
    }

    fn sql(&self) -> String {
        let Self { table, columns, .. } = self;
        let values: Vec<String> = (1..=columns.len()).map(|n| format!("?{n}")).collect();
        let changes: Vec<String> =
            columns.iter().map(|column| format!("{column} = excluded.{column}")).collect();
        let (names, values, changes) = (columns.join(", "), values.join(", "), changes.join(", "));
        format!("INSERT INTO {table} ({names}) VALUES ({values}) ON CONFLICT DO UPDATE SET {changes}")
    }
}
