//! Memories and settings: small named values.

use rusqlite::params;
use session::ThreadId;

use crate::{Memory, Store, StoreError};

impl Store {
    /// Stores a memory and replaces one with the same name.
    pub async fn put_memory(&self, memory: Memory) -> Result<(), StoreError> {
        self.write(move |conn| {
            let Memory { thread, name, text, updated_at } = &memory;
            let mut insert = conn.prepare_cached(
                "INSERT INTO memory (thread, name, text, updated_at) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (coalesce(thread, ''), name) DO UPDATE
                 SET text = excluded.text, updated_at = excluded.updated_at",
            )?;
            insert.execute(params![thread.as_ref().map(ThreadId::as_str), name, text, updated_at])?;
            Ok(())
        })
        .await
    }

    /// Deletes a memory. Returns whether it existed.
    pub async fn delete_memory(
        &self,
        thread: Option<&ThreadId>,
        name: impl Into<String>,
    ) -> Result<bool, StoreError> {
        let (thread, name) = (thread.cloned(), name.into());
        self.write(move |conn| {
            let mut delete = conn.prepare_cached("DELETE FROM memory WHERE thread IS ?1 AND name = ?2")?;
            Ok(delete.execute(params![thread.as_ref().map(ThreadId::as_str), name])? > 0)
        })
        .await
    }

    /// Stores a setting.
    pub async fn put_setting(
        &self,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<(), StoreError> {
        let (name, value) = (name.into(), value.into());
        self.write(move |conn| {
            let mut insert = conn.prepare_cached(
                "INSERT INTO settings (name, value) VALUES (?1, ?2)
                 ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            )?;
            insert.execute(params![name, value])?;
            Ok(())
        })
        .await
    }
}
