//! The files that a run may touch, and the one way to reach them.

/// The folder that a run works in. Nothing outside of it can be reached through it.
#[derive(Debug)]
pub struct Workspace;
