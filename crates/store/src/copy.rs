//! A fork's rows from one database to another.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params_from_iter};
use session::RunId;

use crate::StoreError;

/// What a fork needs of itself and of each run that it goes back to: their conversations, what they used, and whether
/// they are to stop.
const OF_ALL: &[(&str, &str)] = &[
    ("threads", "id = (SELECT thread FROM runs WHERE id = ?1)"),
    ("runs", "id = ?1"),
    ("heads", HEADS),
    ("model_calls", "run = ?1"),
    ("messages", "run = ?1"),
    ("forks", "run = ?1"),
    ("seen_files", "run = ?1"),
    ("inbox", "run = ?1"),
    ("spent", "run = ?1"),
];

/// What it needs of itself alone.
const OF_ITSELF: &[(&str, &str)] = &[
    ("tool_calls", "run = ?1"),
    ("jobs", "run = ?1"),
    ("attempts", "model_call IN (SELECT id FROM model_calls WHERE run = ?1)"),
    ("reserved_tokens", "model_call IN (SELECT id FROM model_calls WHERE run = ?1)"),
];

/// What goes back, in an order in which nothing is missed; with the news for its parent, where it was a job.
const GO_BACK: &[(&str, &str)] = &[
    ("runs", "id = ?1"),
    ("heads", HEADS),
    ("model_calls", "run = ?1"),
    ("messages", "run = ?1"),
    ("tool_calls", "run = ?1"),
    ("attempts", "model_call IN (SELECT id FROM model_calls WHERE run = ?1)"),
    ("reserved_tokens", "model_call IN (SELECT id FROM model_calls WHERE run = ?1)"),
    ("forks", "run = ?1"),
    ("seen_files", "run = ?1"),
    ("jobs", "run = ?1"),
    ("inbox", "job = ?1"),
];

const HEADS: &str =
    "hash IN (SELECT head FROM model_calls WHERE run = ?1 UNION SELECT head FROM forks WHERE run = ?1)";

/// Some rows of a table.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) table: &'static str,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Value>>,
}

/// All rows of a fork.
#[derive(Debug)]
pub(crate) struct Taken(pub(crate) Vec<Rows>);

/// Copies what a fork needs, whether it is there already or only the run that it is a fork of.
pub(crate) fn copy(from: &Connection, to: &Connection, run: &RunId, of: &RunId) -> Result<(), StoreError> {
    // What a row refers to may be nothing that a fork needs.
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
        for (table, rows) in OF_ALL {
            taken_of(from, table, rows, run)?.put(&all)?;
        }
    }
    for (table, rows) in OF_ITSELF {
        taken_of(from, table, rows, run.as_str())?.put(&all)?;
    }
    // What others have set aside is never given back here, and nobody must wait for it.
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

/// All that goes back to where a fork came from.
pub(crate) fn taken(conn: &Connection, run: &RunId) -> Result<Taken, StoreError> {
    let taken = GO_BACK.iter().map(|(table, rows)| taken_of(conn, table, rows, run.as_str()));
    Ok(Taken(taken.collect::<Result<_, _>>()?))
}

fn taken_of(conn: &Connection, table: &'static str, rows: &str, run: &str) -> Result<Rows, StoreError> {
    let mut find = conn.prepare_cached(&format!("SELECT * FROM {table} WHERE {rows}"))?;
    let columns: Vec<String> = find.column_names().map(str::to_owned).collect();
    let row = |row: &rusqlite::Row<'_>| (0..columns.len()).map(|n| row.get(n)).collect::<Result<_, _>>();
    let rows = find.query_map([run], row)?.collect::<Result<_, _>>()?;
    Ok(Rows { table, columns, rows })
}

impl Rows {
    /// Writes them; one that is there already becomes as it is here.
    pub(crate) fn put(&self, conn: &Connection) -> Result<(), StoreError> {
        let mut insert = conn.prepare_cached(&self.sql())?;
        for row in &self.rows {
            insert.execute(params_from_iter(row))?;
        }
        Ok(())
    }

    /// Writes them one by one under new numbers, and says which old one became which.
    pub(crate) fn put_anew(&mut self, conn: &Connection) -> Result<Vec<(Value, Value)>, StoreError> {
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
