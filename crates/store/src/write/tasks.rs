//! Tasks of the main agent. Their status changes only by these writes.

use rusqlite::{Connection, params};
use session::{TaskId, ThreadId};

use crate::{Millis, NewTask, Store, StoreError, TaskChange};

impl Store {
    /// Creates a task at the end of its conversation's list.
    pub async fn create_task(&self, task: NewTask) -> Result<(), StoreError> {
        self.write(move |conn| match plan(conn, &task)? {
            true => Ok(()),
            false => Err(StoreError::Exists { what: "task", id: task.id.to_string() }),
        })
        .await
    }

    /// Changes a task of this conversation. Fails for a task of another one.
    pub async fn update_task(
        &self,
        thread: &ThreadId,
        task: &TaskId,
        change: TaskChange,
        at: Millis,
    ) -> Result<(), StoreError> {
        let (thread, task) = (thread.clone(), task.clone());
        self.write(move |conn| match update(conn, &thread, &task, &change, at)? {
            true => Ok(()),
            false => Err(StoreError::NoTask(task.clone())),
        })
        .await
    }

    /// Creates and changes tasks of a conversation in one transaction. A new task that already exists is left
    /// unchanged, so that the same call can be repeated. Fails for a task of another conversation.
    pub async fn change_tasks(
        &self,
        thread: &ThreadId,
        new: Vec<NewTask>,
        changes: Vec<(TaskId, TaskChange)>,
        at: Millis,
    ) -> Result<(), StoreError> {
        let thread = thread.clone();
        self.write(move |conn| {
            for task in new.iter().filter(|task| task.thread == thread) {
                plan(conn, task)?;
            }
            for (task, change) in &changes {
                if !update(conn, &thread, task, change, at)? {
                    return Err(StoreError::NoTask(task.clone()));
                }
            }
            Ok(())
        })
        .await
    }

    /// Deletes a task of this conversation. The runs that worked on it stay, without their link to it.
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

/// Inserts a task after the others. Returns whether it is new.
fn plan(conn: &Connection, task: &NewTask) -> Result<bool, StoreError> {
    if !conn.prepare_cached("SELECT 1 FROM threads WHERE id = ?1")?.exists([task.thread.as_str()])? {
        return Err(StoreError::NoThread(task.thread.clone()));
    }
    let mut insert = conn.prepare_cached(
        "INSERT INTO tasks (id, thread, subject, description, status, position, created_at, updated_at)
         SELECT ?1, ?2, ?3, ?4, 'pending', coalesce(max(position) + 1, 0), ?5, ?5
         FROM tasks WHERE thread = ?2
         ON CONFLICT (id) DO NOTHING",
    )?;
    let NewTask { id, thread, subject, description, at } = task;
    Ok(insert.execute(params![id.as_str(), thread.as_str(), subject, description, at])? > 0)
}

/// Changes a task of this conversation. Returns whether it exists.
fn update(
    conn: &Connection,
    thread: &ThreadId,
    task: &TaskId,
    change: &TaskChange,
    at: Millis,
) -> Result<bool, StoreError> {
    let mut update = conn.prepare_cached(
        "UPDATE tasks SET subject = coalesce(?3, subject), description = coalesce(?4, description),
             status = coalesce(?5, status), result = coalesce(?6, result),
             position = coalesce(?7, position), updated_at = ?8
         WHERE id = ?1 AND thread = ?2",
    )?;
    let TaskChange { subject, description, status, result, position } = change;
    let of = [task.as_str(), thread.as_str()];
    Ok(update.execute(params![of[0], of[1], subject, description, status, result, position, at])? > 0)
}
