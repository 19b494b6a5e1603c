//! Sealing: the final search for secrets, the digests, and the final manifest.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

use redact::Redactor;
use wire::encoding::decode_partly;

use crate::body;
use crate::digests::{digests, files};
use crate::error::SealError;
use crate::event::OutputStream;
use crate::file_names;
use crate::log::BodyLocation;
use crate::loss::{self, Loss};
use crate::manifest::{LaneEntry, MANIFEST_FORMAT, Manifest};
use crate::open::{Entry, Recording};
use crate::recorder::FinishedRecording;
use crate::scrub;
use crate::source::Source;
use crate::unsearched;

/// Size of the pieces in which files are searched. Each begins with the end of the previous one.
const PIECE: usize = 4 << 20;
const OVERLAP: usize = 64 << 10;
/// Maximum decompressed size that is searched, equal to the limit on arrival.
const MOST_UNPACKED: usize = 64 << 20;
/// Text in a dump whose body is in base64.
const OPAQUE: &[u8] = br#""body":{"base64":""#;

/// Findings of the sealing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SealReport {
    /// List of everything that could not be kept.
    pub losses: Vec<Loss>,
    /// Bodies, files, and parts of them that could not be searched for secrets, with reasons.
    pub unsearched: Vec<String>,
    /// Places that look random enough to be an unknown kind of secret.
    pub suspicious: Vec<String>,
}

impl FinishedRecording {
    /// Seals the recording in `dir`. `manifest` has the caller's data: command, exit code, addresses, times. If
    /// it has a reason why the recording is incomplete, all steps are taken but the recording stays unsealed.
    pub fn seal(mut self, dir: &Path, manifest: Manifest) -> Result<SealReport, SealError> {
        let failed = |source| SealError::Io { dir: dir.to_owned(), source };
        remove_if_there(&dir.join(file_names::RESERVE)).map_err(failed)?;
        if self.learned_late || scrub::is_needed(dir, &self.redactor)? {
            scrub::scrub(dir, &mut self.redactor)?;
        } else if !self.losses.is_empty() {
            scrub::write_missing_dumps(dir)?;
        }
        self.losses.retain(|loss| !(is_dump(loss) && is_there_now(dir, loss)));
        self.losses = loss::compact(self.losses);
        self.unsearched = unsearched::compact(&self.unsearched);
        if let Some(code) = manifest.command.as_ref().and_then(|command| command.exit_code) {
            fs::write(dir.join(file_names::EXIT_CODE), format!("{code}\n")).map_err(failed)?;
            let kept = manifest.command.as_ref().is_some_and(|command| command.output_not_kept.is_none());
            for output in [OutputStream::Stdout, OutputStream::Stderr].into_iter().filter(|_| kept) {
                // A command without output gets an empty file.
                File::options().append(true).create(true).open(dir.join(output.file())).map_err(failed)?;
            }
        }
        name_by_content(dir, OutputStream::Stdout).map_err(failed)?;
        let mut manifest = Manifest {
            format: MANIFEST_FORMAT,
            offshoot: env!("CARGO_PKG_VERSION").to_owned(),
            lanes: lanes(dir),
            counts: self.counts,
            lost: self.losses.clone(),
            unsearched: self.unsearched.clone(),
            digests: digests(dir).map_err(failed)?,
            ..manifest
        };
        // Redacted again, because the redactor has learned more since the start.
        manifest.redact(&mut self.redactor);
        manifest.redaction = self.redactor.report();
        let SecretFindings { residue, suspicious } = search_for_secrets(dir, &manifest, &self.redactor)?;
        let clean = residue.is_empty();
        if !clean {
            let found = format!("it may still hold secrets: {}", residue.join(", "));
            manifest.unsealed_because = Some(found);
        }
        manifest.sealed = manifest.unsealed_because.is_none();
        manifest.suspicious.clone_from(&suspicious);
        if let Err(error) = write_manifest(dir, &manifest) {
            // The list of losses is worth more than the digests.
            let why = format!("its manifest does not fit on the disk: {error}");
            let _ = write_manifest(dir, &manifest.bare(why)); // report the first error
            return Err(failed(error));
        }
        if clean {
            Ok(SealReport { losses: self.losses, unsearched: self.unsearched, suspicious })
        } else {
            Err(SealError::Residue { dir: dir.to_owned(), found: residue })
        }
    }
}

/// Returns the recorded lanes. Exchanges that cannot be ordered do not prevent sealing.
fn lanes(dir: &Path) -> Vec<LaneEntry> {
    let ordered = Source::open(dir).map(|source| source.order()).ok();
    ordered.iter().flat_map(|ordered| &ordered.lanes.lanes).map(LaneEntry::of).collect()
}

fn is_dump(loss: &Loss) -> bool {
    loss.what.ends_with(" dump")
}

fn is_there_now(dir: &Path, loss: &Loss) -> bool {
    let name = match (&loss.request_id, loss.what.as_str()) {
        (Some(id), "request dump") => file_names::request_dump(id),
        (Some(id), _) => file_names::response_dump(id),
        (None, _) => return false,
    };
    dir.join(name).exists()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Replaces the manifest by a rename, so that there is always one complete manifest.
fn write_manifest(dir: &Path, manifest: &Manifest) -> io::Result<()> {
    let beside = dir.join(".recording.json");
    let written = (|| {
        fs::write(&beside, manifest.to_json())?;
        File::open(&beside)?.sync_all()?;
        if let Ok(log) = File::open(dir.join(file_names::LOG)) {
            log.sync_all()?;
        }
        fs::rename(&beside, dir.join(file_names::MANIFEST))?;
        File::open(dir)?.sync_all()
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside); // report the first error
    }
    written
}

/// Renames `stdout.txt` to `.json` or `.jsonl` if it has that format.
fn name_by_content(dir: &Path, output: OutputStream) -> io::Result<()> {
    let path = dir.join(output.file());
    let is_json = |bytes: &[u8]| wire::json::Document::parse(bytes).is_ok();
    let bytes = match fs::read(&path) {
        Ok(bytes) if !bytes.is_empty() => bytes,
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !matches!(bytes.first(), Some(b'{' | b'[')) {
        return Ok(());
    }
    if is_json(&bytes) {
        fs::rename(&path, path.with_extension("json"))
    } else if bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).all(is_json) {
        fs::rename(&path, path.with_extension("jsonl"))
    } else {
        Ok(())
    }
}

#[derive(Default)]
struct SecretFindings {
    residue: Vec<String>,
    suspicious: Vec<String>,
}

/// Searches all files for leftover secrets.
fn search_for_secrets(
    dir: &Path,
    manifest: &Manifest,
    redactor: &Redactor,
) -> Result<SecretFindings, SealError> {
    let failed = |source| SealError::Io { dir: dir.to_owned(), source };
    let mut findings = SecretFindings::default();
    // Digests and names of runs look random.
    let digestless = Manifest { digests: BTreeMap::new(), replay: None, ..manifest.clone() };
    findings.add_from(redactor, file_names::MANIFEST, &digestless.to_json());
    for name in files(dir).map_err(failed)? {
        // The existing manifest will be replaced by the one searched above.
        if name != file_names::MANIFEST {
            findings.add_from(redactor, &name, name.as_bytes());
            search_file(&dir.join(&name), &name, redactor, &mut findings).map_err(failed)?;
        }
    }
    search_bodies(dir, redactor, &mut findings);
    Ok(findings)
}

/// Searches compressed bodies in their decompressed form, too. Folders and bodies that cannot be opened were
/// searched as stored, and other readers cannot open them either.
fn search_bodies(dir: &Path, redactor: &Redactor, findings: &mut SecretFindings) {
    let Ok(recording) = Recording::open(dir) else { return };
    for (stored, dump, headers) in recording.entries().iter().flat_map(Entry::bodies) {
        let body = recording.body(stored, &dump).and_then(|body| recording.bytes_of(&body));
        let Ok(Some(bytes)) = body else { continue };
        let coding = body::coding(headers, &bytes).filter(|_| stored.decoded_from.is_none());
        let unpacked = coding.and_then(|coding| decode_partly(&coding, &bytes, MOST_UNPACKED).ok());
        let name = if stored.at == BodyLocation::Blob { file_names::blob(&stored.sha256) } else { dump };
        for piece in unpacked.iter().flat_map(|unpacked| pieces(&unpacked.bytes)) {
            findings.add_residues_from(redactor, &name, piece);
        }
    }
}

/// Splits a long text into the pieces in which files are searched.
fn pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = (0..bytes.len()).step_by(PIECE - OVERLAP);
    starts.map(|start| &bytes[start..bytes.len().min(start + PIECE)])
}

impl SecretFindings {
    fn add_residues_from(&mut self, redactor: &Redactor, file: &str, bytes: &[u8]) {
        for residue in redactor.find_residues(file, bytes) {
            let place = format!("`{file}` ({})", residue.rule);
            if !self.residue.contains(&place) {
                self.residue.push(place);
            }
        }
    }

    fn add_from(&mut self, redactor: &Redactor, file: &str, bytes: &[u8]) {
        self.add_residues_from(redactor, file, bytes);
        // Text in base64 looks random.
        let opaque = bytes.windows(OPAQUE.len()).any(|window| window == OPAQUE);
        let known = self.suspicious.iter().any(|known| known == file);
        if !opaque && !known && !redactor.find_suspicions(bytes).is_empty() {
            self.suspicious.push(file.to_owned());
        }
    }
}

fn search_file(
    path: &Path,
    name: &str,
    redactor: &Redactor,
    findings: &mut SecretFindings,
) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut piece = Vec::new();
    loop {
        let kept = piece.len();
        if (&mut file).take((PIECE - kept) as u64).read_to_end(&mut piece)? == 0 && kept > 0 {
            return Ok(()); // the overlap was searched before
        }
        findings.add_from(redactor, name, &piece);
        if piece.len() < PIECE {
            return Ok(());
        }
        piece.drain(..piece.len() - OVERLAP);
    }
}
