//! Names of the files in a recording.

/// Manifest.
pub(crate) const MANIFEST: &str = "recording.json";
/// Log.
pub(crate) const LOG: &str = "exchanges.log";
/// Scenario of the run.
pub(crate) const SCENARIO: &str = "scenario.json";
/// Exit code of the command.
pub(crate) const EXIT_CODE: &str = "exit_code.txt";
/// Report of the replay that answered, if any.
pub(crate) const REPLAY: &str = "replay.json";
/// Folder with the harness's own transcripts.
pub(crate) const EXPORTS: &str = "exports";
/// Folder of the dump files.
pub(crate) const DUMPS: &str = "provider_dumps";
/// Folder of bodies that are too long for a dump.
pub(crate) const BLOBS: &str = "blobs";
/// Reserved space, freed before sealing so that the manifest fits on a full disk.
pub(crate) const RESERVE: &str = ".reserve";
/// Folder of derived files, which the seal does not cover.
pub(crate) const NORMALIZED: &str = "normalized";

/// Returns the name of an exchange's request dump.
pub(crate) fn request_dump(id: &str) -> String {
    format!("{DUMPS}/{id}_request.json")
}

/// Returns the name of an exchange's response dump.
pub(crate) fn response_dump(id: &str) -> String {
    format!("{DUMPS}/{id}_response.json")
}

/// Returns the name of a finished blob.
pub(crate) fn blob(sha256: &str) -> String {
    format!("{BLOBS}/{sha256}")
}
