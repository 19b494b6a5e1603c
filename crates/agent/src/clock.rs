//! The clock of runs.

use jiff::Zoned;
use store::Millis;

/// The system's clock, or a fixed time with which two runs see the same.
#[derive(Clone, Debug, Default)]
pub struct RunClock {
    fixed: Option<Zoned>,
}

impl RunClock {
    /// Creates a clock with a fixed time.
    pub fn fixed(at: Zoned) -> Self {
        Self { fixed: Some(at) }
    }

    /// Returns the time in the user's time zone.
    pub fn now(&self) -> Zoned {
        self.fixed.clone().unwrap_or_else(Zoned::now)
    }

    /// Returns the system's time in the journal's unit, even if the clock is fixed.
    pub(crate) fn millis(&self) -> Millis {
        Millis(jiff::Timestamp::now().as_millisecond())
    }
}
