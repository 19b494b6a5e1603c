//! Finds lost data in the files of a journal that SQLite would drop silently.
//!
//! SQLite takes an empty file for a new database, and reads a write-ahead log only up to the first damaged frame. In
//! both cases it would then overwrite the rest. So the files are checked before SQLite opens them, and left unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use crate::StoreError;

/// Length of the log's header, and of the header of each frame.
const HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Number of reads of a log while another process restarts it.
const READS: usize = 3;

/// Fails if the database lost its content, or if its log is damaged before its end or lost committed frames.
pub(crate) fn check_files(path: &Path) -> Result<(), StoreError> {
    let log = beside(path, "-wal");
    let length = |path: &Path| fs::metadata(path).map(|file| file.len()).ok();
    let is_empty = length(path) == Some(0);
    let is_missing = length(path).is_none() && length(&log).is_some_and(|length| length > 0);
    if is_empty || is_missing {
        return Err(StoreError::Emptied { path: path.to_owned() });
    }
    if has_lost_frames(&log, &beside(path, "-shm")) {
        return Err(StoreError::LogDamaged { path: path.to_owned() });
    }
    for _ in 0..READS {
        let Ok(bytes) = fs::read(&log) else { return Ok(()) };
        if !has_gap(&bytes) {
            return Ok(());
        }
        // With the same header, no process has started the log again, and only its end may have changed.
        let is_stable = fs::read(&log).is_ok_and(|now| now.get(..HEADER) == bytes.get(..HEADER));
        if is_stable {
            return Err(StoreError::LogDamaged { path: path.to_owned() });
        }
    }
    Ok(())
}

/// Returns the path of a file that SQLite keeps beside the database.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Returns whether the log is shorter than its index says. SQLite writes a frame before it counts it in the index, and
/// removes the log only after all frames are in the database.
fn has_lost_frames(log: &Path, index: &Path) -> bool {
    for _ in 0..READS {
        let Ok(bytes) = fs::read(index) else { return false };
        let Some(needed) = needed_length(&bytes) else { return false };
        let length = fs::metadata(log).map_or(0, |file| file.len());
        if length >= needed {
            return false;
        }
        // Another process may have put the frames into the database meanwhile.
        if fs::read(index).is_ok_and(|now| now == bytes) {
            return true;
        }
    }
    false
}

/// Returns the length that the log must have, by its index: two equal headers, and the number of frames in the database.
fn needed_length(index: &[u8]) -> Option<u64> {
    let (header, copy) = (index.get(..48)?, index.get(48..96)?);
    let in_database = index.get(96..100)?;
    let number = |bytes: &[u8]| u32::from_ne_bytes(bytes.try_into().expect("four bytes"));
    let page = u64::from(u16::from_ne_bytes([header[14], header[15]]));
    let frames = number(&header[16..20]);
    let is_valid = header == copy && header[12] == 1 && page.is_power_of_two();
    (is_valid && number(in_database) < frames)
        .then(|| HEADER as u64 + u64::from(frames) * (FRAME_HEADER as u64 + page))
}

/// Returns whether a log has a damaged frame before a later transaction was committed. A damaged end alone is normal
/// after a kill: that transaction was not committed.
fn has_gap(log: &[u8]) -> bool {
    let Some(header) = log.get(..HEADER) else { return false };
    let page = number(header, 8) as usize;
    let is_big_endian = number(header, 0) & 1 == 1;
    let mut sums = checksum([0, 0], &header[..24], is_big_endian);
    let has_frames = log.len() > HEADER + FRAME_HEADER;
    if number(header, 0) & !1 != 0x377f_0682
        || !page.is_power_of_two()
        || sums != [number(header, 24), number(header, 28)]
    {
        return has_frames;
    }
    let (mut is_damaged, mut commits_after) = (false, false);
    for frame in log[HEADER..].chunks_exact(FRAME_HEADER + page) {
        let is_current = frame[8..16] == header[16..24];
        if commits_after && is_current {
            return true;
        }
        if !is_damaged {
            sums = checksum(sums, &frame[..8], is_big_endian);
            sums = checksum(sums, &frame[FRAME_HEADER..], is_big_endian);
            is_damaged = !is_current || sums != [number(frame, 16), number(frame, 20)];
        }
        commits_after |= is_damaged && is_current && number(frame, 4) != 0;
    }
    false
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// Computes the checksum of SQLite's log, which continues from frame to frame.
fn checksum([mut a, mut b]: [u32; 2], bytes: &[u8], is_big_endian: bool) -> [u32; 2] {
    let word = |four: &[u8]| {
        let four = four.try_into().expect("four bytes");
        if is_big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    };
    for pair in bytes.chunks_exact(8) {
        a = a.wrapping_add(word(&pair[..4])).wrapping_add(b);
        b = b.wrapping_add(word(&pair[4..])).wrapping_add(a);
    }
    [a, b]
}
