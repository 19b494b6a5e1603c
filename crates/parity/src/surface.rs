//! The table of surfaces.

use serde::{Deserialize, Serialize};

/// Passes the table of surfaces to a macro. The order is that of reports.
///
/// To add a surface:
///
/// 1. Add `verify/surfaces/NAME.rs` with `pub(super) const DEFINITION: SurfaceDefinition`, and `mod NAME;` beside it.
///    A unit belongs to the first surface of the table whose `has_unit` takes it, so remove it from the others.
/// 2. Add a row `Name = NAME` with its documentation here, before `Routing`. `NAME` is `Name` in snake case.
/// 3. A fact that is no unit, such as an order, also needs a row in `verify/structure.rs`.
/// 4. Add a row to the sample in `crates/report/src/sample.rs`.
///
/// The JSON, the rules of `parity.toml`, the tables of the verdict, JUnit and the page follow from the row.
macro_rules! surface_table {
    ($generate:ident) => {
        $generate! {
            /// System prompt, user text, reminders.
            Prompt = prompt,
            /// Tool definitions.
            Tools = tools,
            /// Model, sampling, thinking, limits, headers, cache markers.
            Settings = settings,
            /// Tool calls that the harness carries back.
            Calls = calls,
            /// Tool results.
            Results = results,
            /// Acknowledgements, polls, announcements and cancellations of jobs.
            Jobs = jobs,
            /// Lanes, parents, sessions, addresses, attempts.
            Routing = routing,
        }
    };
}
pub(crate) use surface_table;

macro_rules! declare_surfaces {
    ($($(#[$doc:meta])* $variant:ident = $module:ident,)*) => {
        /// A part of a recording that is compared by itself.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Surface {
            $($(#[$doc])* $variant,)*
        }

        impl Surface {
            /// All surfaces, in the order of reports.
            pub const ALL: [Self; [$(stringify!($variant)),*].len()] = [$(Self::$variant),*];

            /// Returns the name in messages, files and JSON, such as `prompt`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($module),)*
                }
            }
        }
    };
}

surface_table!(declare_surfaces);
