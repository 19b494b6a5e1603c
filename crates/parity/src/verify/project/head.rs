//! Units of the method, the address and the headers.

use std::sync::Arc;

use wire::Header;

use super::projector::Projector;
use super::unit::{Unit, UnitKind};
use crate::verify::id_shape::has_made_up_id;

/// Names of this machine in an address.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// Words in a header's name that may go with an id.
const ID_SUBJECTS: &[&str] = &[
    "agent",
    "b3",
    "baggage",
    "conversation",
    "correlation",
    "idempotency",
    "interaction",
    "parent",
    "request",
    "sentry",
    "session",
    "span",
    "thread",
    "trace",
    "traceparent",
    "tracestate",
    "turn",
];

/// Projects method, address and headers.
pub(super) fn head_units(
    projector: &mut Projector<'_>,
    method: &str,
    url: &str,
    headers: &[Header],
) -> Vec<Arc<Unit>> {
    let quote = wire::json::quote;
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let at = rest.find('/').unwrap_or(rest.len());
    let (host, target) = rest.split_at(at);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // A proxy on loopback takes any free port, which the harness did not choose.
    let host = LOOPBACK.into_iter().find(|known| is_port_of(host, known)).unwrap_or(host);
    let mut units = vec![
        projector.outside(UnitKind::RequestLine, "method", "method", &quote(method)),
        projector.outside(UnitKind::RequestLine, "host", "url:host", &quote(host)),
        projector.outside(UnitKind::RequestLine, "path", "url:path", &quote(path)),
    ];
    if !query.is_empty() {
        units.push(projector.outside(UnitKind::Header, "query", "url:query", &quote(query)));
    }
    for header in headers {
        let name = header.name().to_ascii_lowercase();
        let pointer = format!("header:{name}");
        let is_id = header.value().is_some_and(|value| holds_an_id(&name, value));
        let kind = if is_id { UnitKind::Identity } else { UnitKind::Header };
        let json = match header {
            Header::Plain { value, .. } => quote(value),
            Header::Secret { fingerprint, .. } => format!("{{\"fingerprint\":{}}}", quote(fingerprint)),
        };
        units.push(projector.outside(kind, &name, &pointer, &json));
    }
    units
}

fn is_port_of(host: &str, known: &str) -> bool {
    let port = host.strip_prefix(known).and_then(|rest| rest.strip_prefix(':'));
    port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether a header holds an id: its name says so, or its name fits and its value looks like one. A mode or a
/// count of sessions is an ordinary value.
fn holds_an_id(name: &str, value: &str) -> bool {
    let has = |word: &str| name.split(['-', '_']).any(|part| part == word);
    let is_of = ID_SUBJECTS.iter().any(|word| has(word)) && !has("user");
    is_of && (has("id") || has_made_up_id(value))
}
