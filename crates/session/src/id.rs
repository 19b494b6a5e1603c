//! Ids are types: two of them cannot be swapped by accident.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps the text of an id as it was seen.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id_type!(
    /// One exchange in a recording, as in `r000001`: numbered in the order of arrival.
    RequestId
);
id_type!(
    /// One tool call, as the model named it; its result carries the same id.
    CallId
);

id_type!(
    /// A user's conversation in the store.
    ThreadId
);
id_type!(
    /// One execution of one agent's loop; a job's id is its run's.
    RunId
);
id_type!(
    /// A piece of work that the main agent planned.
    TaskId
);

impl RequestId {
    /// The id of the `n`th request of a recording, counted from 1.
    pub fn nth(n: u64) -> Self {
        Self(format!("r{n:06}"))
    }
}
