//! Sums of what a run and all runs below it have used and reserved.
//!
//! Checking a limit must not add up the whole tree: a thousand agents would read a million rows. A sum is
//! created at the first check of a limit, and every later write that affects it updates it.

use std::ops::{Add, Neg};

use rusqlite::{Connection, OptionalExtension, Row, params};
use session::{RunId, Usage};

use super::count;
use crate::{ModelCallId, StoreError, read};

/// Amounts of money and tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) used_microusd: i64,
    pub(crate) used_tokens: i64,
    /// Reserved for open calls. A paused run reserves nothing.
    pub(crate) reserved_microusd: i64,
    pub(crate) reserved_tokens: i64,
}

impl Spent {
    /// Returns what a reply used, as its provider reported it.
    fn reported(cost_microusd: Option<i64>, usage: &Usage) -> Self {
        let Usage { input, output, cache_read, cache_write_5m, cache_write_1h, .. } = *usage;
        let tokens: i64 = [input, output, cache_read, cache_write_5m, cache_write_1h].map(count).iter().sum();
        Self { used_microusd: cost_microusd.unwrap_or_default(), used_tokens: tokens, ..Self::default() }
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            used_microusd: row.get(0)?,
            used_tokens: row.get(1)?,
            reserved_microusd: row.get(2)?,
            reserved_tokens: row.get(3)?,
        })
    }
}

impl Add for Spent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            used_microusd: self.used_microusd + other.used_microusd,
            used_tokens: self.used_tokens + other.used_tokens,
            reserved_microusd: self.reserved_microusd + other.reserved_microusd,
            reserved_tokens: self.reserved_tokens + other.reserved_tokens,
        }
    }
}

impl Neg for Spent {
    type Output = Self;

    fn neg(self) -> Self {
        Self {
            used_microusd: -self.used_microusd,
            used_tokens: -self.used_tokens,
            reserved_microusd: -self.reserved_microusd,
            reserved_tokens: -self.reserved_tokens,
        }
    }
}

/// Reads the stored sum of a run.
pub(crate) fn stored(conn: &Connection, run: &RunId) -> Result<Option<Spent>, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT used_microusd, used_tokens, aside_microusd, aside_tokens FROM spent WHERE run = ?1",
    )?;
    Ok(find.query_row([run.as_str()], Spent::read).optional()?)
}

/// Stores a sum.
pub(super) fn insert(conn: &Connection, run: &RunId, spent: Spent) -> Result<(), StoreError> {
    let mut insert = conn.prepare_cached("INSERT INTO spent VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let Spent { used_microusd, used_tokens, reserved_microusd, reserved_tokens } = spent;
    insert.execute(params![run.as_str(), used_microusd, used_tokens, reserved_microusd, reserved_tokens])?;
    Ok(())
}

/// Computes the sum of a run and all runs below it.
pub(crate) fn computed(conn: &Connection, run: &RunId) -> Result<Spent, StoreError> {
    let mut find = conn.prepare_cached(
        "WITH RECURSIVE below (id) AS (
             SELECT ?1 UNION ALL
             SELECT runs.id FROM below JOIN runs ON runs.parent = below.id AND runs.root <> runs.id
         )
         SELECT coalesce(sum(coalesce(c.cost_microusd, c.reserved_microusd)) FILTER (WHERE c.status = 'answered'), 0),
             coalesce(sum(CASE
                 WHEN c.input + c.cache_read + c.cache_write_5m + c.cache_write_1h > 0
                     THEN c.input + c.output + c.cache_read + c.cache_write_5m + c.cache_write_1h
                 ELSE max(c.output, coalesce(t.tokens, c.request_len / 3))
             END) FILTER (WHERE c.status = 'answered'), 0),
             coalesce(sum(c.reserved_microusd) FILTER (WHERE c.status = 'asked' AND r.status IN ('running', 'waiting')), 0),
             coalesce(sum(t.tokens) FILTER (WHERE c.status = 'asked' AND r.status IN ('running', 'waiting')), 0)
         FROM model_calls c JOIN runs r ON r.id = c.run LEFT JOIN reserved_tokens t ON t.model_call = c.id
         WHERE c.run IN (SELECT id FROM below)",
    )?;
    Ok(find.query_row([run.as_str()], Spent::read)?)
}

/// Returns what a reply used. If its provider did not report it, the reservation counts as used, so that a
/// limit is never exceeded unnoticed.
pub(super) fn used(
    conn: &Connection,
    call: ModelCallId,
    cost_microusd: Option<i64>,
    usage: &Usage,
) -> Result<Spent, StoreError> {
    let reported = Spent::reported(cost_microusd, usage);
    if cost_microusd.is_some() && usage.is_reported() {
        return Ok(reported);
    }
    let mut find = conn.prepare_cached(
        "SELECT c.reserved_microusd, coalesce(t.tokens, c.request_len / 3), 0, 0
         FROM model_calls c LEFT JOIN reserved_tokens t ON t.model_call = c.id WHERE c.id = ?1",
    )?;
    let most = find.query_row([call], Spent::read)?;
    Ok(Spent {
        used_microusd: cost_microusd.unwrap_or(most.used_microusd),
        used_tokens: if usage.is_reported() {
            reported.used_tokens
        } else {
            reported.used_tokens.max(most.used_tokens)
        },
        ..reported
    })
}

/// Returns the reservation of an open call.
pub(super) fn reservation(conn: &Connection, call: ModelCallId) -> Result<Spent, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT 0, 0, c.reserved_microusd, coalesce(t.tokens, 0)
         FROM model_calls c LEFT JOIN reserved_tokens t ON t.model_call = c.id WHERE c.id = ?1",
    )?;
    Ok(find.query_row([call], Spent::read)?)
}

/// Returns the reservations of all open calls of one run.
pub(super) fn reservations(conn: &Connection, run: &RunId) -> Result<Spent, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT 0, 0, coalesce(sum(c.reserved_microusd), 0), coalesce(sum(t.tokens), 0)
         FROM model_calls c LEFT JOIN reserved_tokens t ON t.model_call = c.id
         WHERE c.run = ?1 AND c.status = 'asked'",
    )?;
    Ok(find.query_row([run.as_str()], Spent::read)?)
}

/// Changes the stored sums of a run and of all runs above it.
pub(super) fn change(conn: &Connection, run: &RunId, by: Spent) -> Result<(), StoreError> {
    change_from(conn, run, read::above(conn, run)?, by)
}

/// Changes the sums like [`change`], for callers that know the run above.
pub(super) fn change_from(
    conn: &Connection,
    run: &RunId,
    above: Option<RunId>,
    by: Spent,
) -> Result<(), StoreError> {
    if by == Spent::default() {
        return Ok(());
    }
    let mut update = conn.prepare_cached(
        "UPDATE spent SET used_microusd = used_microusd + ?2, used_tokens = used_tokens + ?3,
             aside_microusd = aside_microusd + ?4, aside_tokens = aside_tokens + ?5
         WHERE run = ?1",
    )?;
    // Run by run: a recursive query would build two tables for what is almost always two rows.
    let mut add = |run: &RunId| {
        let Spent { used_microusd, used_tokens, reserved_microusd, reserved_tokens } = by;
        update.execute(params![run.as_str(), used_microusd, used_tokens, reserved_microusd, reserved_tokens])
    };
    add(run)?;
    let mut next = above;
    while let Some(run) = next {
        add(&run)?;
        next = read::above(conn, &run)?;
    }
    Ok(())
}

/// Subtracts the sum of a run that is about to be deleted from the runs above it.
pub(super) fn subtract(conn: &Connection, run: &RunId) -> Result<(), StoreError> {
    let gone = stored(conn, run)?.map_or_else(|| computed(conn, run), Ok)?;
    change(conn, run, -gone)
}
