//! Writes synthetic exchanges as dumps, which are a valid recording.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Writes the two dumps of the exchange `number`. Returns the number of bytes.
pub(super) fn write(folder: &Path, number: usize, request: &str, response: &str) -> Result<usize> {
    let mut written = 0;
    for (half, second, body) in [("request", 2 * number, request), ("response", 2 * number + 1, response)] {
        let time = format!("2026-01-01T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60);
        let mut dump = format!(
            r#"{{"request_id":"r{number:06}","timestamp":"{time}","phase":"{half}","targetUrl":"http://x/v1/messages","method":"POST","status":200,"headers":[],"body":{{"text":""#
        );
        dump.push_str(&body.replace('\\', "\\\\").replace('"', "\\\""));
        dump.push_str("\"}}");
        let path = folder.join(format!("r{number:06}_{half}.json"));
        fs::write(&path, &dump).with_context(|| format!("cannot write `{}`", path.display()))?;
        written += dump.len();
    }
    Ok(written)
}
