//! Archives, documents and pictures in a text, as base64 or hex.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine as _, GeneralPurpose, GeneralPurposeConfig};

use super::runs::before;
use super::unpack;

/// A coding of bytes as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextCoding {
    Base64,
    Hex,
    /// Base64 of UTF-16, after an option of PowerShell.
    Command,
}

use TextCoding::{Base64, Command, Hex};

/// The beginnings of encoded data. For base64, the last character depends on the data alone.
pub(super) const BEGINNINGS: &[(&str, TextCoding)] = &[
    ("H4sI", Base64),
    ("KLUv/", Base64),
    ("UEsDB", Base64),
    ("U1FMaXRlIGZvcm1hdCAz", Base64),
    ("eAE", Base64),
    ("eAF", Base64),
    ("eAG", Base64),
    ("eAH", Base64),
    ("eJw", Base64),
    ("eJx", Base64),
    ("eJy", Base64),
    ("eJz", Base64),
    ("eNo", Base64),
    ("eNp", Base64),
    ("eNq", Base64),
    ("eNr", Base64),
    ("JVBERi0", Base64),
    ("iVBORw0KGg", Base64),
    ("/9j/", Base64),
    ("R0lGOD", Base64),
    ("UklGR", Base64),
    ("QlpoO", Base64),
    ("/Td6WFo", Base64),
    ("N3q8ryc", Base64),
    ("UmFyIR", Base64),
    ("0M8R4KGx", Base64),
    ("1f8b08", Hex),
    ("28b52ffd", Hex),
    ("504b0304", Hex),
    ("789c", Hex),
    ("78da", Hex),
    ("255044462d", Hex),
    ("89504e470d0a1a0a", Hex),
    ("53514c69746520666f726d6174", Hex),
    ("-enc", Command),
];

/// The minimum length of encoded data.
const SHORTEST: usize = 24;
/// The length of the text in which the signature is.
const HEAD: usize = 48;
/// The searched length of a picture. Its texts are at its beginning.
const LONGEST_PICTURE: usize = 64 << 10;

/// A range of encoded data in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackedRun {
    pub(super) range: Range<usize>,
    coding: TextCoding,
}

/// Returns true if encoded data may continue with `byte`.
pub(super) fn may_continue_with(byte: u8) -> bool {
    is_base64(byte)
}

/// Returns the encoded data that begins at `at`.
pub(super) fn find_run(text: &[u8], at: usize, coding: TextCoding) -> Option<PackedRun> {
    let start = if coding == Command { command_start(text, at)? } else { at };
    let is_part: fn(u8) -> bool = if coding == Hex { is_hex } else { is_base64 };
    let head = text[start..].iter().take(HEAD).take_while(|byte| is_part(**byte)).count();
    let head = PackedRun { range: start..start + head, coding };
    if before(text, start).is_some_and(is_part) || !head.is_signed(text) {
        return None;
    }
    let mut end = start;
    loop {
        let line = text[end..].iter().take_while(|byte| is_part(**byte)).count();
        end += line;
        let gap = text[end..].iter().take(64).take_while(|byte| byte.is_ascii_whitespace()).count();
        let next = text[end + gap..].iter().take(line).take_while(|byte| is_part(**byte)).count();
        // Encoders break lines at a fixed width, so a shorter line is the last one.
        let is_break = line >= 40 && gap > 0 && text[end..end + gap].contains(&b'\n') && next > 0;
        if !is_break {
            break;
        }
        end += gap;
    }
    (end - start >= SHORTEST).then_some(PackedRun { range: start..end, coding })
}

/// Decodes all encoded data in a text.
pub(super) fn decoded_runs(text: &[u8]) -> Vec<Vec<u8>> {
    static AUTOMATON: LazyLock<AhoCorasick> = LazyLock::new(|| {
        let builder = AhoCorasick::builder().ascii_case_insensitive(true).clone();
        builder.build(BEGINNINGS.iter().map(|(text, _)| text)).expect("the beginnings fit an automaton")
    });
    let mut decoded = Vec::new();
    let mut from = 0;
    while let Some(found) = text.get(from..).and_then(|rest| AUTOMATON.find(rest)) {
        let (_, coding) = BEGINNINGS[found.pattern().as_usize()];
        let at = from + found.start();
        from = match find_run(text, at, coding) {
            Some(run) => {
                decoded.push(run.decode(text));
                run.range.end
            }
            None => at + 1,
        };
    }
    decoded
}

/// Returns the start of the value of `-enc` or `-EncodedCommand`.
fn command_start(text: &[u8], at: usize) -> Option<usize> {
    let name = text[at + 1..].iter().take(16).take_while(|byte| byte.is_ascii_alphabetic()).count();
    let is_option = b"encodedcommand".starts_with(&text[at + 1..at + 1 + name].to_ascii_lowercase()[..]);
    let is_gap = |byte: &&u8| matches!(**byte, b' ' | b'"' | b'\'' | b',' | b':' | b'=');
    let gap = text[at + 1 + name..].iter().take(8).take_while(is_gap).count();
    (is_option && gap > 0).then_some(at + 1 + name + gap)
}

impl PackedRun {
    /// Returns true if the data begins with a signature.
    fn is_signed(&self, text: &[u8]) -> bool {
        self.coding == Command || unpack::is_signed(&self.decode(text))
    }

    /// Decodes the data, or the searched part of a picture.
    pub(super) fn decode(&self, text: &[u8]) -> Vec<u8> {
        let encoded = &text[self.range.clone()];
        let is_picture =
            [&b"iVBOR"[..], b"/9j/", b"R0lGOD", b"UklGR"].iter().any(|start| encoded.starts_with(start));
        let most = if is_picture { LONGEST_PICTURE } else { encoded.len() };
        let encoded = encoded[..encoded.len().min(most)].iter().filter(|byte| !byte.is_ascii_whitespace());
        match self.coding {
            Hex => {
                let digits: Vec<u8> = encoded
                    .filter_map(|&byte| (byte as char).to_digit(16))
                    .map(|digit| digit as u8)
                    .collect();
                digits.as_chunks().0.iter().map(|[high, low]| high << 4 | low).collect()
            }
            Base64 | Command => {
                let standard = encoded.filter(|byte| **byte != b'=').map(|&byte| match byte {
                    b'-' => b'+',
                    b'_' => b'/',
                    other => other,
                });
                let mut standard: Vec<u8> = standard.collect();
                if standard.len() % 4 == 1 {
                    standard.pop();
                }
                LENIENT.decode(standard).unwrap_or_default()
            }
        }
    }
}

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=')
}

fn is_hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}
