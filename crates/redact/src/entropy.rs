//! Detects random text, for a warning. Nothing is redacted because of it.

use serde::Serialize;

use super::{Redactor, looks, placeholder};
use wire::opaque::is_in_opaque_field;

/// Random text that may be an unknown kind of secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suspicion {
    /// The offset of its first byte.
    pub offset: usize,
    /// The length in bytes.
    pub length: usize,
}

/// Prefixes of ids from providers and harnesses, which are random and not secret.
const IDS: &[&str] = &[
    "toolu_",
    "srvtoolu_",
    "msg_",
    "req_",
    "call_",
    "ses_",
    "resp_",
    "fc_",
    "rs_",
    "chatcmpl-",
    "prt_",
    "item_",
    "org-",
    "file_",
    "file-",
    "run_",
    "ws_",
    "gen-",
    "fp_",
    "cmpl-",
    "sha256-",
    "sha384-",
    "sha512-",
];

const SHORTEST: usize = 24;
/// The maximum length. Longer texts are images and other data.
const LONGEST: usize = 200;
/// The minimum entropy in bits per character. Words have about 4, and random base64 of that length at least 4.5.
const ENTROPY: f64 = 4.2;

impl Redactor {
    /// Finds texts in `bytes` that look random.
    pub fn find_suspicions(&self, bytes: &[u8]) -> Vec<Suspicion> {
        let mut found = Vec::new();
        let mut offset = 0;
        for run in bytes
            .split(|byte| !(byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'/' | b'=')))
        {
            let length = run.len();
            if (SHORTEST..=LONGEST).contains(&length) && is_random(run) && !is_in_opaque_field(bytes, offset)
            {
                found.push(Suspicion { offset, length });
            }
            offset += length + 1;
        }
        found
    }
}

fn is_random(run: &[u8]) -> bool {
    let has = |check: fn(&u8) -> bool| run.iter().any(check);
    let classes = has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let is_id = IDS.iter().any(|id| run.starts_with(id.as_bytes()));
    let path = run.iter().filter(|&&byte| byte == b'/').count() > run.len() / 16 + 1;
    let words = path || looks::is_named_words(run);
    classes && !is_id && !words && placeholder::find(run).is_none() && entropy(run) >= ENTROPY
}

fn entropy(run: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    run.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
    let total = run.len() as f64;
    let share = |&count: &u32| f64::from(count) / total;
    counts.iter().filter(|count| **count > 0).map(share).map(|p| -p * p.log2()).sum()
}
