//! Starts a harness in a sealed folder and brings back a recording.
//!
//! Start at [`capture`], which does it, and at [`Harness`]: what one kind of program needs to be installed,
//! started, driven and read out. A new kind is one file and one line in [`list`]. Nothing here judges
//! what was recorded.

mod adapter;
mod capture;
mod claude_code;
mod command;
mod doctor;
mod error;
pub mod import;
mod install;
mod meter;
mod offshoot;
mod oh_my_opencode;
mod opencode;
mod replay;
mod round;
mod sandbox;
mod scenario;
mod warden;

pub use adapter::{
    Doing, Endpoints, Export, Harness, Host, Install, Launch, Mode, Package, Plan, Provider, Release,
};
pub use capture::{Asked, Captured, Failure, Places, Ready, Replaying, Speaker, capture};
pub use doctor::{Finding, doctor};
pub use error::{Blame, HarnessError};
pub use install::{Installed, Tell, install, install_ripgrep, install_tool, release};
pub use replay::again;
pub use sandbox::Sandbox;
pub use scenario::{Files, FixtureFile, Scenario, find as find_scenario, shipped};
pub use session::model::{Price, TABLE_MONTH as PRICES_OF, price};
pub use warden::{Ended, Warden, serve_if_asked};

/// Every kind of harness, in the order that people are told of them.
pub fn list() -> Vec<Box<dyn Harness>> {
    vec![
        Box::new(claude_code::ClaudeCode),
        Box::new(opencode::OpenCode),
        Box::new(oh_my_opencode::OhMyOpenCode),
        Box::new(offshoot::Offshoot),
        Box::new(command::Command),
    ]
}

/// The kind of that name.
pub fn find(name: &str) -> Option<Box<dyn Harness>> {
    list().into_iter().find(|harness| harness.name() == name)
}
