//! One file per command.

pub(crate) mod capture;
pub(crate) mod doctor;
pub(crate) mod proxy;
pub(crate) mod show;
