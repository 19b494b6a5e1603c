//! Typed ids, so that two of them cannot be swapped by accident.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps the text of an id.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// Returns the text of the id.
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
    /// Id of an exchange in a recording, such as `r000001`, numbered in the order of arrival.
    RequestId
);
id_type!(
    /// Id of a tool call, as the model chose it. The result of the call carries the same id.
    CallId
);

id_type!(
    /// Id of a user's conversation in the store.
    ThreadId
);
id_type!(
    /// Id of one execution of an agent's loop. The id of a job is that of its run.
    RunId
);
id_type!(
    /// Id of a piece of work that the main agent planned.
    TaskId
);

impl RequestId {
    /// Returns the id of the `n`th request of a recording, counted from 1.
    pub fn nth(n: u64) -> Self {
        Self(format!("r{n:06}"))
    }
}
