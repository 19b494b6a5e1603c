//! One file per command.

pub(crate) mod proxy;
pub(crate) mod show;
