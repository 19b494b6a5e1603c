//! The names of the files in a recording.

/// The manifest.
pub(crate) const MANIFEST: &str = "recording.json";
/// The log.
pub(crate) const LOG: &str = "exchanges.log";
/// The scenario as it was run.
pub(crate) const SCENARIO: &str = "scenario.json";
/// What the command returned.
pub(crate) const EXIT_CODE: &str = "exit_code.txt";
/// How a replay went, where one answered.
pub(crate) const REPLAY: &str = "replay.json";
/// What the harness wrote down by itself.
pub(crate) const EXPORTS: &str = "exports";
/// The folder of the dump files.
pub(crate) const DUMPS: &str = "provider_dumps";
/// The folder of bodies that are too long for a dump.
pub(crate) const BLOBS: &str = "blobs";
/// Room that is given back before sealing, so that a full disk can still take the manifest.
pub(crate) const RESERVE: &str = ".reserve";
/// What is derived from the rest: outside of the seal.
pub(crate) const NORMALIZED: &str = "normalized";

/// The name of an exchange's request dump.
pub(crate) fn request_dump(id: &str) -> String {
    format!("{DUMPS}/{id}_request.json")
}

/// The name of an exchange's response dump.
pub(crate) fn response_dump(id: &str) -> String {
    format!("{DUMPS}/{id}_response.json")
}

/// The name of a finished blob.
pub(crate) fn blob(sha256: &str) -> String {
    format!("{BLOBS}/{sha256}")
}
