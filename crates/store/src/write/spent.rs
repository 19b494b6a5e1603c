//! What a run and all below it have used and set aside, kept as sums.
//!
//! Who asks whether a question fits a limit must not add up the whole tree: a thousand that ask would read a million
//! rows. A sum is made when its limit is looked at first, and every write that changes what it adds up changes it too.

use std::ops::{Add, Neg};

use rusqlite::{Connection, OptionalExtension, Row, params};
use session::{RunId, Usage};

use super::count;
use crate::{ModelCallId, StoreError, read};

/// Money and tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) used_microusd: i64,
    pub(crate) used_tokens: i64,
    /// Set aside for open questions. What was broken off sets nothing aside until it goes on.
    pub(crate) aside_microusd: i64,
    pub(crate) aside_tokens: i64,
}

impl Spent {
    /// What an answer used, as its provider tells it.
    fn told(cost_microusd: Option<i64>, usage: &Usage) -> Self {
        let Usage { input, output, cache_read, cache_write_5m, cache_write_1h, .. } = *usage;
        let tokens: i64 = [input, output, cache_read, cache_write_5m, cache_write_1h].map(count).iter().sum();
        Self { used_microusd: cost_microusd.unwrap_or_default(), used_tokens: tokens, ..Self::default() }
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            used_microusd: row.get(0)?,
            used_tokens: row.get(1)?,
            aside_microusd: row.get(2)?,
            aside_tokens: row.get(3)?,
        })
    }
}

impl Add for Spent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            used_microusd: self.used_microusd + other.used_microusd,
            used_tokens: self.used_tokens + other.used_tokens,
            aside_microusd: self.aside_microusd + other.aside_microusd,
            aside_tokens: self.aside_tokens + other.aside_tokens,
        }
    }
}

impl Neg for Spent {
    type Output = Self;

    fn neg(self) -> Self {
        Self {
            used_microusd: -self.used_microusd,
            used_tokens: -self.used_tokens,
            aside_microusd: -self.aside_microusd,
            aside_tokens: -self.aside_tokens,
        }
    }
}

/// The sum that is kept for a run.
pub(crate) fn kept(conn: &Connection, run: &RunId) -> Result<Option<Spent>, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT used_microusd, used_tokens, aside_microusd, aside_tokens FROM spent WHERE run = ?1",
    )?;
    Ok(find.query_row([run.as_str()], Spent::read).optional()?)
}

/// Keeps a sum from now on.
pub(super) fn keep(conn: &Connection, run: &RunId, spent: Spent) -> Result<(), StoreError> {
    let mut insert = conn.prepare_cached("INSERT INTO spent VALUES (?1, ?2, ?3, ?4, ?5)")?;
    let Spent { used_microusd, used_tokens, aside_microusd, aside_tokens } = spent;
    insert.execute(params![run.as_str(), used_microusd, used_tokens, aside_microusd, aside_tokens])?;
    Ok(())
}

/// The sum of a run and all below it, added up.
pub(crate) fn added_up(conn: &Connection, run: &RunId) -> Result<Spent, StoreError> {
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

/// What an answer used. Where its provider does not say, it counts as what was set aside for it: a limit is a promise,
/// and less could be untrue.
pub(super) fn used(
    conn: &Connection,
    call: ModelCallId,
    cost_microusd: Option<i64>,
    usage: &Usage,
) -> Result<Spent, StoreError> {
    let told = Spent::told(cost_microusd, usage);
    if cost_microusd.is_some() && usage.is_reported() {
        return Ok(told);
    }
    let mut find = conn.prepare_cached(
        "SELECT c.reserved_microusd, coalesce(t.tokens, c.request_len / 3), 0, 0
         FROM model_calls c LEFT JOIN reserved_tokens t ON t.model_call = c.id WHERE c.id = ?1",
    )?;
    let most = find.query_row([call], Spent::read)?;
    Ok(Spent {
        used_microusd: cost_microusd.unwrap_or(most.used_microusd),
        used_tokens: if usage.is_reported() {
            told.used_tokens
        } else {
            told.used_tokens.max(most.used_tokens)
        },
        ..told
    })
}

/// What an open question sets aside.
pub(super) fn aside(conn: &Connection, call: ModelCallId) -> Result<Spent, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT 0, 0, c.reserved_microusd, coalesce(t.tokens, 0)
         FROM model_calls c LEFT JOIN reserved_tokens t ON t.model_call = c.id WHERE c.id = ?1",
    )?;
    Ok(find.query_row([call], Spent::read)?)
}

/// What all open questions of one run set aside, while it is at work.
pub(super) fn all_aside(conn: &Connection, run: &RunId) -> Result<Spent, StoreError> {
    let mut find = conn.prepare_cached(
        "SELECT 0, 0, coalesce(sum(c.reserved_microusd), 0), coalesce(sum(t.tokens), 0)
         FROM model_calls c LEFT JOIN reserved_tokens t ON t.model_call = c.id
         WHERE c.run = ?1 AND c.status = 'asked'",
    )?;
    Ok(find.query_row([run.as_str()], Spent::read)?)
}

/// Changes the sums of a run and of all above it, where they are kept.
pub(super) fn change(conn: &Connection, run: &RunId, by: Spent) -> Result<(), StoreError> {
    change_from(conn, run, read::above(conn, run)?, by)
}

/// The same, where it is known which run is above.
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
    // Run by run: a recursive query would make two tables for what is nearly always two rows.
    let mut add = |run: &RunId| {
        let Spent { used_microusd, used_tokens, aside_microusd, aside_tokens } = by;
        update.execute(params![run.as_str(), used_microusd, used_tokens, aside_microusd, aside_tokens])
    };
    add(run)?;
    let mut next = above;
    while let Some(run) = next {
        add(&run)?;
        next = read::above(conn, &run)?;
    }
    Ok(())
}

/// A run goes with all below it: those above have not used what it did.
pub(super) fn forget(conn: &Connection, run: &RunId) -> Result<(), StoreError> {
    let gone = kept(conn, run)?.map_or_else(|| added_up(conn, run), Ok)?;
    change(conn, run, -gone)
}
