//! Runs a harness in isolated folders and returns a recording.
//!
//! Start at [`capture`], and at [`HarnessAdapter`], which installs, starts, drives and reads out one kind of
//! program. Nothing here compares recordings.
//!
//! To add a kind: one file with its `mod` line, one line in [`list`], and a prompt in each `scenarios/*/scenario.yaml` that has
//! no general one. A script `script.NAME.yaml` is needed where its tools differ.

mod adapter;
mod bypass;
mod capture;
mod claude_code;
mod command;
mod doctor;
mod error;
pub mod import;
mod install;
mod launch;
mod meter;
mod offshoot;
mod oh_my_opencode;
mod opencode;
mod programs;
mod replay;
mod sandbox;
mod scenario;
mod spending;
mod supervisor;

pub use adapter::{
    Endpoints, Export, HarnessAdapter, HostProgram, Install, Mode, Package, Plan, Provider, Release,
    RipgrepUse,
};
pub use capture::{
    CaptureFailure, CaptureFolders, CaptureOutcome, CaptureRequest, ModelSource, PreparedHarness,
    ReplaySource, RepliesRequest, ScenarioOverrides, capture,
};
pub use doctor::{DoctorFinding, doctor};
pub use error::{Blame, HarnessError};
pub use install::{Installation, Progress, install, install_ripgrep, install_tool, release};
pub use launch::{HarnessFuture, Launch};
pub use replay::replay_request;
pub use sandbox::Sandbox;
pub use scenario::{Files, FixtureFile, Scenario, find as find_scenario, shipped};
pub use session::model::{Price, TABLE_MONTH as PRICES_OF, price};
pub use supervisor::{ProgramExit, Supervisor, run_supervisor_if_requested};

/// Returns an adapter for each kind of harness, in display order.
pub fn list() -> Vec<Box<dyn HarnessAdapter>> {
    vec![
        Box::new(claude_code::ClaudeCode),
        Box::new(opencode::OpenCode),
        Box::new(oh_my_opencode::OhMyOpenCode),
        Box::new(offshoot::Offshoot),
        Box::new(command::Command),
    ]
}

/// Finds the adapter with this name.
pub fn find(name: &str) -> Option<Box<dyn HarnessAdapter>> {
    list().into_iter().find(|harness| harness.name() == name)
}
