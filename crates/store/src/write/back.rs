//! A fork that went on in memory comes back to the disk.

use rusqlite::Connection;
use rusqlite::types::Value;
use session::RunId;

use super::spent;
use crate::StoreError;
use crate::copy::{Rows, Taken};

impl Taken {
    /// Puts a fork's rows in the place of those that are here.
    pub(crate) fn put_back(&self, conn: &Connection, run: &RunId) -> Result<(), StoreError> {
        let mut find = conn.prepare_cached("SELECT 1 FROM runs WHERE id = ?1")?;
        if find.exists([run.as_str()])? {
            // Of what it used by now, those above know only what it had used when it left.
            spent::forget(conn, run)?;
            for table in ["messages", "model_calls", "seen_files", "spent"] {
                conn.execute(&format!("DELETE FROM {table} WHERE run = ?1"), [run.as_str()])?;
            }
        }
        // Others have asked questions here meanwhile, so its own have other numbers.
        let mut numbers = Vec::new();
        for Rows { table, columns, rows } in &self.0 {
            let mut rows = Rows { table, columns: columns.clone(), rows: rows.clone() };
            rows.renumber(&numbers);
            match *table {
                "model_calls" => numbers = rows.put_anew(conn)?,
                "messages" | "inbox" => drop(rows.put_anew(conn)?),
                _ => rows.put(conn)?,
            }
        }
        spent::change(conn, run, spent::added_up(conn, run)?)?;
        Ok(())
    }
}

impl Rows {
    /// Lets them refer to the new numbers of model calls.
    fn renumber(&mut self, numbers: &[(Value, Value)]) {
        let Some(at) = self.columns.iter().position(|column| column == "model_call") else { return };
        for row in &mut self.rows {
            if let Some((_, new)) = numbers.iter().find(|(old, _)| *old == row[at]) {
                row[at] = new.clone();
            }
        }
    }
}
