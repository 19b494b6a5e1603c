//! A row of an alignment.

/// An index into the golden's sequence, the candidate's, or both.
pub(super) type Row = (Option<usize>, Option<usize>);
