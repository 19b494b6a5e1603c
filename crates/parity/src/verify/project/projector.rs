//! Collects the units of one request, and hashes its body and the frame around the units.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::Range;
use std::sync::Arc;

use super::unit::{Unit, UnitKind, UnitPool, stamp};

/// Replacement of a unit in a frame. No body contains it by chance.
pub(in crate::verify) const HOLE: &str = r#""\u0001""#;

/// Collects the units of one request and their spans.
pub(super) struct Projector<'p> {
    pool: &'p mut UnitPool,
    pub(super) body: &'p str,
    /// Spans of units in the body, with their stamps.
    pub(super) spans: Vec<(Range<usize>, u64)>,
}

impl<'p> Projector<'p> {
    /// Starts the projection of a request.
    pub(super) fn new(pool: &'p mut UnitPool, body: &'p str) -> Self {
        Self { pool, body, spans: Vec::new() }
    }

    /// Returns the unit at a span of the body, a known one if possible. Everything that it is made from must be in
    /// `by` or in its bytes.
    pub(super) fn unit(
        &mut self,
        by: impl Hash,
        pointer: &str,
        span: Range<usize>,
        new: impl FnOnce(&str) -> Unit,
    ) -> Arc<Unit> {
        let stamp = stamp(by, pointer, &self.body[span.clone()]);
        self.spans.push((span, stamp));
        self.pool.get(stamp, || new(self.body))
    }

    pub(super) fn inside(
        &mut self,
        kind: UnitKind,
        key: &str,
        pointer: &str,
        span: Range<usize>,
    ) -> Arc<Unit> {
        self.unit((kind, key), pointer, span.clone(), |body| Unit::new(kind, key, pointer, &body[span]))
    }

    /// Returns a unit outside of the body.
    pub(super) fn outside(&mut self, kind: UnitKind, key: &str, pointer: &str, json: &str) -> Arc<Unit> {
        let new = || Unit { in_body: false, ..Unit::new(kind, key, pointer, json) };
        self.pool.get(stamp((kind, key), pointer, json), new)
    }

    /// Returns a unit that was cut out of another one, whose span includes it.
    pub(super) fn cut_out(
        &mut self,
        by: impl Hash,
        pointer: &str,
        json: &str,
        new: impl FnOnce() -> Unit,
    ) -> Arc<Unit> {
        self.pool.get(stamp(by, pointer, json), new)
    }

    /// Returns the digests of the body and of its frame. Two bodies are equal if both digests are.
    pub(super) fn digests(mut self) -> (u64, u64) {
        self.spans.sort_unstable_by_key(|(span, _)| span.start);
        let (mut whole, mut frame) = (DefaultHasher::new(), DefaultHasher::new());
        let mut end = 0;
        for (span, stamp) in &self.spans {
            if end <= span.start {
                let between = &self.body.as_bytes()[end..span.start];
                whole.write(between);
                frame.write(between);
                frame.write_u8(0);
            }
            whole.write_u64(*stamp);
            end = end.max(span.end);
        }
        let rest = &self.body.as_bytes()[end..];
        whole.write(rest);
        frame.write(rest);
        (whole.finish(), frame.finish())
    }

    pub(super) fn frame(mut self) -> String {
        self.spans.sort_unstable_by_key(|(span, _)| (span.start, std::cmp::Reverse(span.end)));
        let mut frame = String::new();
        let mut end = 0;
        for (span, _) in &self.spans {
            if end <= span.start {
                frame.push_str(&self.body[end..span.start]);
                frame.push_str(HOLE);
            }
            end = end.max(span.end);
        }
        frame.push_str(&self.body[end..]);
        frame
    }
}
