//! Times, places and digests: numbers that must not be taken for one another.

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
    /// A moment, in milliseconds since 1970. The caller reads the clock; nothing here does.
    Millis
);
number!(
    /// A message's number in its run, from 1, without gaps. The store hands them out.
    Seq
);
number!(
    /// One question to a model, with all attempts to get it answered.
    ModelCallId
);
number!(
    /// One thing that waits for a run.
    InboxId
);
number!(
    /// A place in what the user sees; [`Cursor::default`] is before everything.
    Cursor
);

impl Seq {
    /// The first message of a run.
    pub const FIRST: Self = Self(1);
}

/// One tool call's place: which call of which message of which run.
///
/// A call id is the model's own word and need not be unique; this is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallKey {
    /// The run.
    pub run: RunId,
    /// The message in which the model asks.
    pub message: Seq,
    /// Which call of that message, from 0.
    pub position: u32,
}

impl fmt::Display for CallKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.run, self.message, self.position)
    }
}

/// The process that writes a tree of runs. The start time tells it from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    /// The process id.
    pub pid: u32,
    /// When the process started, in whatever unit the system counts.
    pub start: u64,
}

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these bytes.
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

/// The part of a request that comes before its messages and hardly ever changes: model, tools, system prompt.
///
/// It is kept once for all the calls that share it, by its digest, which is made here and not for each call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    hash: Digest,
    bytes: Arc<[u8]>,
}

impl Head {
    /// The head with these exact bytes.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        Self { hash: Digest::of(&bytes), bytes }
    }

    /// What it is kept under.
    pub fn hash(&self) -> Digest {
        self.hash
    }

    /// The exact bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
