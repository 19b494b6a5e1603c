//! What a stand-in for a provider needs: a client's connection, and responses as bytes.

mod client;
pub(crate) mod http;

pub(crate) use client::{Client, Request};
