//! Tasks: what the main agent planned. A change says what changes; nothing else does.

use rusqlite::params;
use session::{TaskId, ThreadId};

use crate::{Millis, NewTask, Store, StoreError, TaskChange};

impl Store {
    /// Plans a task, behind the others of its conversation.
    pub async fn create_task(&self, task: NewTask) -> Result<(), StoreError> {
        self.write(move |conn| {
            if !conn.prepare_cached("SELECT 1 FROM threads WHERE id = ?1")?.exists([task.thread.as_str()])? {
                return Err(StoreError::NoThread(task.thread.clone()));
            }
            let mut insert = conn.prepare_cached(
                "INSERT INTO tasks (id, thread, subject, description, status, position, created_at, updated_at)
                 SELECT ?1, ?2, ?3, ?4, 'pending', coalesce(max(position) + 1, 0), ?5, ?5
                 FROM tasks WHERE thread = ?2
                 ON CONFLICT (id) DO NOTHING",
            )?;
            let NewTask { id, thread, subject, description, at } = &task;
            match insert.execute(params![id.as_str(), thread.as_str(), subject, description, at])? {
                0 => Err(StoreError::Exists { what: "task", id: id.to_string() }),
                _ => Ok(()),
            }
        })
        .await
    }

    /// Changes a task of this conversation; another conversation's is refused.
    pub async fn update_task(
        &self,
        thread: &ThreadId,
        task: &TaskId,
        change: TaskChange,
        at: Millis,
    ) -> Result<(), StoreError> {
        let (thread, task) = (thread.clone(), task.clone());
        self.write(move |conn| {
            let mut update = conn.prepare_cached(
                "UPDATE tasks SET subject = coalesce(?3, subject), description = coalesce(?4, description),
                     status = coalesce(?5, status), result = coalesce(?6, result),
                     position = coalesce(?7, position), updated_at = ?8
                 WHERE id = ?1 AND thread = ?2",
            )?;
            let TaskChange { subject, description, status, result, position } = &change;
            let of = [task.as_str(), thread.as_str()];
            let done =
                update.execute(params![of[0], of[1], subject, description, status, result, position, at])?;
            if done == 0 { Err(StoreError::NoTask(task.clone())) } else { Ok(()) }
        })
        .await
    }

    /// Deletes a task of this conversation. The runs that worked on it stay; they are only unlinked.
    pub async fn delete_task(&self, thread: &ThreadId, task: &TaskId) -> Result<(), StoreError> {
        let (thread, task) = (thread.clone(), task.clone());
        self.write(move |conn| {
            let mut delete = conn.prepare_cached("DELETE FROM tasks WHERE id = ?1 AND thread = ?2")?;
            match delete.execute([task.as_str(), thread.as_str()])? {
                0 => Err(StoreError::NoTask(task.clone())),
                _ => Ok(()),
            }
        })
        .await
    }
}
