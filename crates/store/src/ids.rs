//! Newtypes for times, positions and digests, so that they cannot be confused.

use std::fmt;
use std::sync::Arc;

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use session::RunId;
use sha2::Digest as _;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                Ok(self.0.into())
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                Ok(Self(value.as_i64()?))
            }
        }
    };
}

number!(
    /// A time in milliseconds since 1970. Callers read the clock; this crate never does.
    Millis
);
number!(
    /// A message's number in its run, from 1 and without gaps. The store assigns it.
    Seq
);
number!(
    /// The id of a model call, which includes all its attempts.
    ModelCallId
);
number!(
    /// The id of an inbox entry.
    InboxId
);
number!(
    /// A position in the messages that the user sees. [`Cursor::default`] is before the first.
    Cursor
);

impl Seq {
    /// The first message of a run.
    pub const FIRST: Self = Self(1);
}

/// Identifies a tool call by its run, message and position.
///
/// Call ids come from the model and may repeat; this key does not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey {
    /// The run.
    pub run: RunId,
    /// The message that contains the call.
    pub message: Seq,
    /// The call's position in that message, from 0.
    pub position: u32,
}

impl fmt::Display for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.run, self.message, self.position)
    }
}

/// A process that writes a run tree. The start time distinguishes it from a later process with the same
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The process id.
    pub pid: u32,
    /// Start time of the process, in the system's unit.
    pub start: u64,
}

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl ToSql for Digest {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Blob(&self.0)))
    }
}

impl FromSql for Digest {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(Self(<[u8; 32]>::column_result(value)?))
    }
}

/// The part of a request before its messages, which rarely changes: model, tools, system prompt.
///
/// Each head is stored once, under its digest. The digest is computed here once and not for each call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    hash: Digest,
    bytes: Arc<[u8]>,
}

impl Head {
    /// Creates a head from its exact bytes.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self { hash: Digest::of(&bytes), bytes }
    }

    /// Its digest, under which it is stored.
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// The exact bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
