//! Moves a fork's rows from memory back to the disk.

use rusqlite::Connection;
use rusqlite::types::Value;
use session::RunId;

use super::spent;
use crate::StoreError;
use crate::copy::{ForkRows, Rows};

impl ForkRows {
    /// Replaces the fork's rows on the disk by these.
    pub(crate) fn write_back(&self, conn: &Connection, run: &RunId) -> Result<(), StoreError> {
        let mut find = conn.prepare_cached("SELECT 1 FROM runs WHERE id = ?1")?;
        if find.exists([run.as_str()])? {
            // The sums of the runs above include what the fork had used when it left the disk.
            spent::subtract(conn, run)?;
            for table in ["messages", "model_calls", "seen_files", "spent"] {
                conn.execute(&format!("DELETE FROM {table} WHERE run = ?1"), [run.as_str()])?;
            }
        }
        // Other runs made calls on the disk meanwhile, so the fork's calls get new numbers.
        let mut numbers = Vec::new();
        for Rows { table, columns, rows } in &self.0 {
            let mut rows = Rows { table, columns: columns.clone(), rows: rows.clone() };
            rows.renumber(&numbers);
            match *table {
                "model_calls" => numbers = rows.insert_renumbered(conn)?,
                "messages" | "inbox" => drop(rows.insert_renumbered(conn)?),
                _ => rows.put(conn)?,
            }
        }
        spent::change(conn, run, spent::computed(conn, run)?)?;
        Ok(())
    }
}

impl Rows {
    /// Replaces references to model calls by their new numbers.
    fn renumber(&mut self, numbers: &[(Value, Value)]) {
        let Some(at) = self.columns.iter().position(|column| column == "model_call") else { return };
        for row in &mut self.rows {
            if let Some((_, new)) = numbers.iter().find(|(old, _)| *old == row[at]) {
                row[at] = new.clone();
            }
        }
    }
}
