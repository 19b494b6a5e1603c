//! Text in UTF-16, in which the rules would find nothing.

/// The length up to which a text is decoded. Longer ones are redacted through a window, in parts.
const LONGEST: usize = 8 << 20;
const SAMPLE: usize = 4096;

/// A decoded text and the offset of each of its bytes in the original.
pub(super) struct Utf16Text {
    pub(super) text: String,
    offsets: Vec<u32>,
}

impl Utf16Text {
    /// Decodes a text if it looks like UTF-16: nearly every second byte is zero, as in text of a Latin alphabet.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > LONGEST || memchr::memchr(0, &bytes[..bytes.len().min(16)]).is_none() {
            return None;
        }
        let sample = &bytes[..bytes.len().min(SAMPLE)];
        let zeros = |parity: usize| sample.iter().skip(parity).step_by(2).filter(|byte| **byte == 0).count();
        let (even, odd, pairs) = (zeros(0), zeros(1), sample.len() / 2);
        let is_little = odd * 4 >= pairs * 3 && even * 8 <= pairs;
        let is_big = even * 4 >= pairs * 3 && odd * 8 <= pairs;
        if pairs < 8 || !(is_little || is_big) {
            return None;
        }
        let pair =
            |pair: &[u8; 2]| if is_little { u16::from_le_bytes(*pair) } else { u16::from_be_bytes(*pair) };
        let units = bytes.as_chunks().0.iter().map(pair);
        let (mut text, mut offsets, mut at) = (String::with_capacity(bytes.len() / 2), Vec::new(), 0);
        for character in char::decode_utf16(units) {
            let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
            text.push(character);
            offsets.resize(text.len(), at);
            at += 2 * character.len_utf16() as u32;
        }
        offsets.push(at);
        Some(Self { text, offsets })
    }

    /// Maps a range of the text to the original.
    pub(super) fn original(&self, range: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        self.offsets[range.start] as usize..self.offsets[range.end] as usize
    }
}
