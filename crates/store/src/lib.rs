//! The journal of our own runs: what was asked, answered, called and finished, durable before anyone is told.
