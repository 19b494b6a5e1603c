//! The time, read in one place.

use jiff::Zoned;
use store::Millis;

/// What the time is: the system's, or one that stands still so that two runs see the same.
#[derive(Clone, Debug, Default)]
pub struct RunClock {
    fixed: Option<Zoned>,
}

impl RunClock {
    /// A clock that stands still.
    pub fn fixed(at: Zoned) -> Self {
        Self { fixed: Some(at) }
    }

    /// Now, in the user's time zone.
    pub fn now(&self) -> Zoned {
        self.fixed.clone().unwrap_or_else(Zoned::now)
    }

    /// Now, as the journal counts: always the system's, since that is when it happened.
    pub(crate) fn millis(&self) -> Millis {
        Millis(jiff::Timestamp::now().as_millisecond())
    }
}
