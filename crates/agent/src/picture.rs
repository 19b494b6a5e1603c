//! Checks pictures before they are sent.
//!
//! A provider rejects a request because of one unreadable picture, and with it every later request, because they repeat it.

use session::{Block, ImageSource, model};

/// The longest side that providers accept, in pixels.
const LONGEST_SIDE: u32 = 8_000;

/// Returns the media type of a picture by its first bytes. The file name may be wrong.
pub(crate) fn media_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

/// Returns why a picture cannot be sent.
pub(crate) fn flaw(bytes: &[u8]) -> Option<String> {
    match sides(bytes).filter(|_| has_end(bytes)) {
        None | Some((0, _) | (_, 0)) => Some("it is damaged".to_owned()),
        Some((width, height)) if width.max(height) > LONGEST_SIDE => {
            Some(format!("it has {width} by {height} pixels; the maximum for a side is {LONGEST_SIDE}"))
        }
        Some(_) => None,
    }
}

/// Returns the blocks with a note in place of each picture if the model accepts none.
pub(crate) fn for_model(model: &str, mut blocks: Vec<Block>) -> Vec<Block> {
    if !model::accepts_images(model) {
        for block in &mut blocks {
            if let Block::Image(source) = block {
                let kind = match source {
                    ImageSource::Base64 { media_type, .. } => media_type.as_str(),
                    _ => "stored elsewhere",
                };
                let text = format!(
                    "[a picture, {kind}: not shown, because `{model}` is not known to accept pictures]"
                );
                *block = Block::Text { text };
            }
        }
    }
    blocks
}

/// Returns width and height from the header.
fn sides(bytes: &[u8]) -> Option<(u32, u32)> {
    match media_type(bytes)? {
        "image/png" => {
            bytes.get(12..16).filter(|name| name == b"IHDR")?;
            Some((big(bytes, 16, 4)?, big(bytes, 20, 4)?))
        }
        "image/gif" => Some((little(bytes, 6, 2)?, little(bytes, 8, 2)?)),
        "image/jpeg" => jpeg_sides(bytes),
        _ => webp_sides(bytes),
    }
}

/// Returns whether the picture is complete.
fn has_end(bytes: &[u8]) -> bool {
    match media_type(bytes) {
        Some("image/png") => bytes.windows(4).rev().any(|name| name == b"IEND"),
        Some("image/gif") => bytes.iter().rev().find(|byte| **byte != 0) == Some(&0x3b),
        Some("image/jpeg") => bytes.windows(2).rev().any(|marker| marker == [0xff, 0xd9]),
        Some(_) => little(bytes, 4, 4).is_some_and(|size| size as usize + 8 <= bytes.len()),
        None => false,
    }
}

/// Walks the segments up to the start of a frame.
fn jpeg_sides(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        let marker = *bytes.get(at + 1).filter(|_| bytes[at] == 0xff)?;
        match marker {
            0xff => at += 1,
            0xc0..=0xcf if ![0xc4, 0xc8, 0xcc].contains(&marker) => {
                return Some((big(bytes, at + 7, 2)?, big(bytes, at + 5, 2)?));
            }
            _ => at += 2 + big(bytes, at + 2, 2)? as usize,
        }
    }
}

fn webp_sides(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8 " => Some((little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff)),
        b"VP8L" => {
            let bits = little(bytes, 21, 4)?;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        _ => None,
    }
}

fn big(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    Some(bytes.get(at..at + length)?.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

fn little(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    Some(bytes.get(at..at + length)?.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// One grey pixel.
    pub(crate) const PNG: &[u8] =
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\
        \0\0\0\nIDATx\x9cc\x60\0\0\0\x02\0\x01\x48\xaf\xa4\x71\0\0\0\0IEND\xaeB\x60\x82";
    pub(crate) const GIF: &[u8] = b"GIF89a\x02\0\x03\0\0\0\0,\0\0\0\0\x02\0\x03\0\0\x02\x02\x84Q\0;";
    pub(crate) const JPEG: &[u8] =
        b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x0b\x08\0\x05\0\x04\x01\x01\x11\0\xff\xda\0\x02x\xff\xd9";
    pub(crate) const WEBP: &[u8] = b"RIFF\x16\0\0\0WEBPVP8L\x09\0\0\0\x2f\x06\x40\x01\0abcd\0";

    #[test]
    fn a_picture_has_sides_and_an_end() {
        for (bytes, expected) in [(PNG, (1, 1)), (GIF, (2, 3)), (JPEG, (4, 5)), (WEBP, (7, 6))] {
            assert_eq!((sides(bytes), flaw(bytes)), (Some(expected), None), "{:?}", media_type(bytes));
            for end in 0..bytes.len() - 4 {
                assert!(flaw(&bytes[..end]).is_some(), "{:?} cut at {end}", media_type(bytes));
            }
        }
        let mut wide = PNG.to_vec();
        wide[18] = 0x40;
        assert!(flaw(&wide).is_some_and(|flaw| flaw.contains("16385 by 1 pixels")));
    }

    #[test]
    fn a_model_without_vision_gets_a_note() {
        let shown = || {
            let source = ImageSource::Base64 { media_type: "image/png".into(), data: "AA==".into() };
            vec![Block::Text { text: "look".into() }, Block::Image(source)]
        };
        assert_eq!(for_model("claude-opus-5", shown()), shown());
        let told = for_model("mystery-1", shown());
        assert_eq!(told[0], shown()[0]);
        assert!(
            matches!(&told[1], Block::Text { text } if text.contains("a picture, image/png: not shown, because `mystery-1`"))
        );
    }
}
