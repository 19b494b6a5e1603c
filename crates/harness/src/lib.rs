//! Starts a harness in a sealed folder and brings back a recording.
//!
//! Start at [`Harness`]: what one kind of program needs to be installed, started, driven and read out. A new
//! kind is one file and one line in [`list`]. Nothing here judges what was recorded.

mod adapter;
mod claude_code;
mod error;
mod sandbox;
mod warden;

pub use adapter::{Doing, Endpoints, Export, Harness, Host, Install, Launch, Mode, Package, Plan, Release};
pub use error::{Blame, HarnessError};
pub use sandbox::Sandbox;
pub use warden::{Ended, Warden, serve_if_asked};

/// Every kind of harness, in the order that people are told of them.
pub fn list() -> Vec<Box<dyn Harness>> {
    vec![Box::new(claude_code::ClaudeCode)]
}

/// The kind of that name.
pub fn find(name: &str) -> Option<Box<dyn Harness>> {
    list().into_iter().find(|harness| harness.name() == name)
}
