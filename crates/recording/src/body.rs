//! Bodies on their way to the disk: held until they are complete, or passed through a window.

use std::borrow::Cow;

use redact::{BodyHints, RedactionWindow, Redactor, SearchGap};
use sha2::{Digest, Sha256};
use wire::Header;
use wire::encoding::CodingError;

use crate::disk_queue::{DataSource, DiskOp, DiskQueue};
use crate::file_names;
use crate::hints::{header, list_header};
use crate::log::{BodyLocation, StoredBody};

/// Size from which a body is written to a blob while it arrives.
pub(crate) const LONG: usize = 1 << 20;
/// Maximum size of a compressed body. It must be complete to be searched, so a longer one is not kept.
const LONGEST_COMPRESSED: usize = 16 << 20;

/// Body that is arriving.
#[derive(Debug)]
pub(crate) struct ArrivingBody {
    owner: DataSource,
    content_type: Option<String>,
    content_encoding: Option<String>,
    /// True if the body must be complete to be searched: an archive, a document or a database.
    is_packed: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Body held as the pieces that arrived. One growing buffer would take up to twice the memory.
    Held {
        pieces: Vec<Vec<u8>>,
        bytes: usize,
    },
    Long(Box<LongBody>),
    TooLong(u64),
}

#[derive(Debug)]
struct LongBody {
    window: RedactionWindow,
    name: String,
    hasher: Sha256,
    stored: u64,
}

/// Body that is complete, or that ended early.
#[derive(Debug)]
pub(crate) struct FinishedBody {
    pub(crate) stored: StoredBody,
    /// Stored bytes, unless they are in a blob.
    pub(crate) bytes: Vec<u8>,
    /// Temporary file that the blob was written to.
    pub(crate) blob: Option<String>,
    /// Edits that map offsets of the received body to the stored one; `None` if they do not correspond.
    pub(crate) edits: Option<wire::json::Edits>,
    /// Reason why the body, or a part of it, was not searched.
    pub(crate) unsearched: Option<String>,
}

impl ArrivingBody {
    pub(crate) fn new(n: u64, what: &'static str) -> Self {
        Self {
            owner: DataSource { n: Some(n), what },
            content_type: None,
            content_encoding: None,
            is_packed: false,
            state: State::Held { pieces: Vec::new(), bytes: 0 },
        }
    }

    /// Stores what the headers say about the body.
    pub(crate) fn described(&mut self, headers: &[Header]) {
        self.content_type = header(headers, "content-type").map(str::to_owned);
        self.content_encoding = declared(headers);
    }

    /// Appends bytes.
    pub(crate) fn push(&mut self, bytes: Vec<u8>, redactor: &mut Redactor, queue: &DiskQueue) {
        match &mut self.state {
            State::Held { pieces, bytes: held } => {
                if bytes.is_empty() {
                    return;
                }
                if pieces.is_empty() && self.content_encoding.is_none() {
                    self.content_encoding = sniffed(&bytes).map(str::to_owned);
                    self.is_packed = redact::is_packed(&bytes);
                }
                *held += bytes.len();
                pieces.push(bytes);
                match self.content_encoding.is_some() || self.is_packed {
                    true if *held > LONGEST_COMPRESSED => self.state = State::TooLong(*held as u64),
                    false if *held > LONG => {
                        let pieces = std::mem::take(pieces);
                        self.state = State::Long(Box::new(self.long_body()));
                        pieces.iter().for_each(|piece| self.pass_on(piece, redactor, queue));
                    }
                    _ => {}
                }
            }
            State::Long(_) => self.pass_on(&bytes, redactor, queue),
            State::TooLong(seen) => *seen += bytes.len() as u64,
        }
    }

    fn long_body(&self) -> LongBody {
        let name = unfinished(self.owner);
        let window = RedactionWindow::new(self.owner.what, self.content_type.as_deref());
        LongBody { window, name, hasher: Sha256::new(), stored: 0 }
    }

    fn pass_on(&mut self, bytes: &[u8], redactor: &mut Redactor, queue: &DiskQueue) {
        let State::Long(long) = &mut self.state else { return };
        let ready = long.window.push(redactor, bytes);
        long.keep(ready, self.owner, queue);
    }

    /// Redacts and stores the rest of the body.
    pub(crate) fn finish(self, redactor: &mut Redactor, queue: &DiskQueue) -> FinishedBody {
        match self.state {
            State::Held { mut pieces, .. } => {
                let held = if pieces.len() == 1 { pieces.remove(0) } else { pieces.concat() };
                let hints = BodyHints {
                    content_type: self.content_type.as_deref(),
                    content_encoding: self.content_encoding.as_deref(),
                };
                let redacted = redactor.redact_body(self.owner.what, hints, &held);
                if let Some(error @ SearchGap::Everything(CodingError::TooLong { .. })) = &redacted.unsearched
                {
                    let reason = format!("{error}: it cannot be searched for secrets");
                    return not_kept(self.owner, held.len() as u64, &reason, queue);
                }
                let unsearched = redacted.unsearched.map(|why| self.owner.describe(&why.to_string()));
                let decoded_from = self.content_encoding.filter(|_| redacted.decoded);
                let edits = redacted.edits;
                let bytes = match redacted.bytes {
                    Cow::Owned(spliced) => spliced,
                    Cow::Borrowed(_) => held,
                };
                if bytes.len() > LONG {
                    let stored = blob_of(self.owner, bytes, decoded_from, queue);
                    let blob = Some(unfinished(self.owner));
                    return FinishedBody { stored, bytes: Vec::new(), blob, edits, unsearched };
                }
                let stored = StoredBody {
                    at: BodyLocation::Dump,
                    sha256: hex(Sha256::digest(&bytes)),
                    bytes: bytes.len() as u64,
                    decoded_from,
                };
                FinishedBody { stored, bytes, blob: None, edits, unsearched }
            }
            State::Long(mut long) => {
                let ready = long.window.finish(redactor);
                long.keep(ready, self.owner, queue);
                let LongBody { window, name, hasher, stored } = *long;
                let sha256 = hex(hasher.finalize());
                let to = file_names::blob(&sha256);
                queue.push([DiskOp::Finish { owner: self.owner, name: name.clone(), to, bytes: stored }]);
                let stored = StoredBody { at: BodyLocation::Blob, sha256, bytes: stored, decoded_from: None };
                FinishedBody {
                    stored,
                    bytes: Vec::new(),
                    blob: Some(name),
                    edits: Some(window.edits().clone()),
                    unsearched: window.unsearched().map(|why| self.owner.describe(&why.to_string())),
                }
            }
            State::TooLong(seen) => {
                let most = LONGEST_COMPRESSED >> 20;
                let reason = format!("compressed and over {most} MiB: it cannot be searched for secrets");
                not_kept(self.owner, seen, &reason, queue)
            }
        }
    }
}

fn not_kept(owner: DataSource, bytes: u64, reason: &str, queue: &DiskQueue) -> FinishedBody {
    queue.lose(owner.loss(bytes, reason));
    FinishedBody { stored: StoredBody::lost(), bytes: Vec::new(), blob: None, edits: None, unsearched: None }
}

/// Queues a long body that was held because it is compressed. It is written to a temporary file and renamed
/// when complete, because another body may have the same digest.
fn blob_of(owner: DataSource, bytes: Vec<u8>, decoded_from: Option<String>, queue: &DiskQueue) -> StoredBody {
    let sha256 = hex(Sha256::digest(&bytes));
    let (name, to, length) = (unfinished(owner), file_names::blob(&sha256), bytes.len() as u64);
    queue.push([
        DiskOp::Part { owner, name: name.clone(), bytes },
        DiskOp::Finish { owner, name, to, bytes: length },
    ]);
    StoredBody { at: BodyLocation::Blob, sha256, bytes: length, decoded_from }
}

/// Returns the name of a blob until it is complete.
fn unfinished(owner: DataSource) -> String {
    let id = owner.id().unwrap_or_default();
    format!("{}/.unfinished-{id}-{}", file_names::BLOBS, owner.what.replace(' ', "-"))
}

impl LongBody {
    fn keep(&mut self, bytes: Vec<u8>, owner: DataSource, queue: &DiskQueue) {
        self.hasher.update(&bytes);
        self.stored += bytes.len() as u64;
        queue.push([DiskOp::Part { owner, name: self.name.clone(), bytes }]);
    }
}

/// Returns the content coding of a body, from its headers or its first bytes. Every reader of a stored body
/// uses this, so that it is decompressed in the same way as when it was searched.
pub(crate) fn coding(headers: &[Header], bytes: &[u8]) -> Option<String> {
    declared(headers).or_else(|| sniffed(bytes).map(str::to_owned))
}

fn declared(headers: &[Header]) -> Option<String> {
    let is_identity =
        |coding: &String| coding.split(',').all(|coding| coding.trim().eq_ignore_ascii_case("identity"));
    list_header(headers, "content-encoding").filter(|coding| !is_identity(coding))
}

/// Detects the coding of an undeclared compressed body by its first bytes.
fn sniffed(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x1f, 0x8b, ..] => Some("gzip"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some("zstd"),
        _ => None,
    }
}

/// Returns the SHA-256 of some bytes in lower-case hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes))
}

pub(crate) fn hex(digest: impl AsRef<[u8]>) -> String {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    digest.as_ref().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
