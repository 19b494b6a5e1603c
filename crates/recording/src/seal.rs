//! Sealing: the last look for secrets, the digests, and the manifest that says so.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use redact::Redactor;
use sha2::{Digest, Sha256};
use thiserror::Error;
use wire::encoding::decode_partly;

use crate::body::{self, hex};
use crate::folder;
use crate::log::{LogError, Place};
use crate::loss::{self, Loss};
use crate::manifest::{LaneEntry, MANIFEST_FORMAT, Manifest};
use crate::open::{Entry, OpenError, Recording};
use crate::recorder::{Finished, Output};
use crate::scrub;
use crate::source::Source;

/// Files are searched in pieces of this size, each with the end of the one before it.
const PIECE: usize = 4 << 20;
const OVERLAP: usize = 64 << 10;
/// As much of a compressed body as was searched when it came.
const MOST_UNPACKED: usize = 64 << 20;
/// How a dump says that its body is not text.
const OPAQUE: &[u8] = br#""body":{"base64":""#;

/// A recording that could not be sealed. What was recorded is still there.
#[derive(Debug, Error)]
pub enum SealError {
    /// Something that looks like a secret is still there.
    #[error("`{}` still holds what looks like a secret, so it is not sealed: {}", dir.display(), found.join(", "))]
    Residue {
        /// The recording.
        dir: PathBuf,
        /// Where, and by which rule; never the value.
        found: Vec<String>,
    },
    /// A file could not be read or written.
    #[error("cannot seal `{}`", dir.display())]
    Io {
        /// The recording.
        dir: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// What was written cannot be read back.
    #[error("cannot seal `{}`: what was written does not read back", dir.display())]
    Unreadable {
        /// The recording.
        dir: PathBuf,
        /// Why.
        #[source]
        source: OpenError,
    },
    /// The log cannot be read back.
    #[error("cannot seal `{}`: its log does not read back", dir.display())]
    Log {
        /// The recording.
        dir: PathBuf,
        /// Why.
        #[source]
        source: LogError,
    },
}

/// What the sealing found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sealed {
    /// What could not be kept.
    pub losses: Vec<Loss>,
    /// Bodies that could not be unpacked to be searched, and why.
    pub unsearched: Vec<String>,
    /// Places that look random enough to be a secret that no rule knows.
    pub suspicious: Vec<String>,
}

impl Finished {
    /// Seals the recording in `dir`. `manifest` says what the caller knows: the command and how it
    /// ended, the addresses, the times. Where it says why the recording is not whole, everything is done as
    /// for a seal, and it stays unsealed for that reason.
    pub fn seal(mut self, dir: &Path, manifest: Manifest) -> Result<Sealed, SealError> {
        let failed = |source| SealError::Io { dir: dir.to_owned(), source };
        remove_if_there(&dir.join(folder::RESERVE)).map_err(failed)?;
        if self.learned_late || scrub::is_needed(dir, &self.redactor)? {
            scrub::scrub(dir, &mut self.redactor)?;
        } else if !self.losses.is_empty() {
            scrub::write_missing_dumps(dir)?;
        }
        self.losses.retain(|loss| !(is_dump(loss) && is_there_now(dir, loss)));
        self.losses = loss::compact(self.losses);
        if let Some(code) = manifest.command.as_ref().and_then(|command| command.exit_code) {
            fs::write(dir.join(folder::EXIT_CODE), format!("{code}\n")).map_err(failed)?;
            let kept = manifest.command.as_ref().is_some_and(|command| command.output_not_kept.is_none());
            for output in [Output::Stdout, Output::Stderr].into_iter().filter(|_| kept) {
                // A command that printed nothing has an empty file, not none.
                File::options().append(true).create(true).open(dir.join(output.file())).map_err(failed)?;
            }
        }
        name_by_content(dir, Output::Stdout).map_err(failed)?;
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
        // Once more, with all that has been learned since it was begun.
        manifest.redact(&mut self.redactor);
        manifest.redaction = self.redactor.report();
        let Look { residue, suspicious } = look(dir, &manifest, &self.redactor)?;
        let clean = residue.is_empty();
        if !clean {
            let found = format!("it still holds what looks like a secret: {}", residue.join(", "));
            manifest.unsealed_because = Some(found);
        }
        manifest.sealed = manifest.unsealed_because.is_none();
        manifest.suspicious.clone_from(&suspicious);
        if let Err(error) = write_manifest(dir, &manifest) {
            // What could not be kept is worth more than the proof that the rest is whole.
            let why = format!("its manifest did not fit on the disk: {error}");
            let _ = write_manifest(dir, &manifest.bare(why)); // the error that matters is the one we return
            return Err(failed(error));
        }
        if clean {
            Ok(Sealed { losses: self.losses, unsearched: self.unsearched, suspicious })
        } else {
            Err(SealError::Residue { dir: dir.to_owned(), found: residue })
        }
    }
}

/// The lanes of what was recorded. That some of it cannot be ordered is no reason not to seal it.
fn lanes(dir: &Path) -> Vec<LaneEntry> {
    let ordered = Source::open(dir).map(|source| source.order()).ok();
    ordered.iter().flat_map(|ordered| &ordered.lanes.lanes).map(LaneEntry::of).collect()
}

fn is_dump(loss: &Loss) -> bool {
    loss.what.ends_with(" dump")
}

fn is_there_now(dir: &Path, loss: &Loss) -> bool {
    let name = match (&loss.request_id, loss.what.as_str()) {
        (Some(id), "request dump") => folder::request_dump(id),
        (Some(id), _) => folder::response_dump(id),
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

/// Written beside and renamed over, so that there is always one whole manifest.
fn write_manifest(dir: &Path, manifest: &Manifest) -> io::Result<()> {
    let beside = dir.join(".recording.json");
    let written = (|| {
        fs::write(&beside, manifest.to_json())?;
        File::open(&beside)?.sync_all()?;
        if let Ok(log) = File::open(dir.join(folder::LOG)) {
            log.sync_all()?;
        }
        fs::rename(&beside, dir.join(folder::MANIFEST))?;
        File::open(dir)?.sync_all()
    })();
    if written.is_err() {
        let _ = fs::remove_file(&beside); // the error that matters is the one we return
    }
    written
}

/// `stdout.txt` becomes `.json` or `.jsonl` where that is what it is.
fn name_by_content(dir: &Path, output: Output) -> io::Result<()> {
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
struct Look {
    residue: Vec<String>,
    suspicious: Vec<String>,
}

/// The last look for secrets, at every file that is there, whoever wrote it.
fn look(dir: &Path, manifest: &Manifest, redactor: &Redactor) -> Result<Look, SealError> {
    let failed = |source| SealError::Io { dir: dir.to_owned(), source };
    let mut look = Look::default();
    // Digests are random by nature, and so are the names of runs.
    let digestless = Manifest { digests: BTreeMap::new(), replay: None, ..manifest.clone() };
    look.at(redactor, folder::MANIFEST, &digestless.to_json());
    for name in files(dir).map_err(failed)? {
        // The manifest that is there will be replaced by the one that was looked at above.
        if name != folder::MANIFEST {
            look.at(redactor, &name, name.as_bytes());
            look_at_file(&dir.join(&name), &name, redactor, &mut look).map_err(failed)?;
        }
    }
    look_into_bodies(dir, redactor, &mut look);
    Ok(look)
}

/// What is stored compressed is looked at unpacked too. A folder that does not open, or a body that does
/// not, has been looked at as it stands, and nobody else can read more of it.
fn look_into_bodies(dir: &Path, redactor: &Redactor, look: &mut Look) {
    let Ok(recording) = Recording::open(dir) else { return };
    for (stored, dump, headers) in recording.entries().iter().flat_map(Entry::bodies) {
        let body = recording.body(stored, &dump).and_then(|body| recording.bytes_of(&body));
        let Ok(Some(bytes)) = body else { continue };
        let coding = body::coding(headers, &bytes).filter(|_| stored.decoded_from.is_none());
        let unpacked = coding.and_then(|coding| decode_partly(&coding, &bytes, MOST_UNPACKED).ok());
        let name = if stored.at == Place::Blob { folder::blob(&stored.sha256) } else { dump };
        for piece in unpacked.iter().flat_map(|unpacked| pieces(&unpacked.bytes)) {
            look.for_secrets(redactor, &name, piece);
        }
    }
}

/// A long text in the pieces in which files are searched.
fn pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let starts = (0..bytes.len()).step_by(PIECE - OVERLAP);
    starts.map(|start| &bytes[start..bytes.len().min(start + PIECE)])
}

impl Look {
    fn for_secrets(&mut self, redactor: &Redactor, file: &str, bytes: &[u8]) {
        for residue in redactor.find_residues(file, bytes) {
            let place = format!("`{file}` ({})", residue.rule);
            if !self.residue.contains(&place) {
                self.residue.push(place);
            }
        }
    }

    fn at(&mut self, redactor: &Redactor, file: &str, bytes: &[u8]) {
        self.for_secrets(redactor, file, bytes);
        // What is stored in base64 is random by nature.
        let opaque = bytes.windows(OPAQUE.len()).any(|window| window == OPAQUE);
        let known = self.suspicious.iter().any(|known| known == file);
        if !opaque && !known && !redactor.find_suspicions(bytes).is_empty() {
            self.suspicious.push(file.to_owned());
        }
    }
}

fn look_at_file(path: &Path, name: &str, redactor: &Redactor, look: &mut Look) -> io::Result<()> {
    let mut file = File::open(path)?;
    let mut piece = Vec::new();
    loop {
        let kept = piece.len();
        if (&mut file).take((PIECE - kept) as u64).read_to_end(&mut piece)? == 0 && kept > 0 {
            return Ok(()); // the overlap alone was searched before
        }
        look.at(redactor, name, &piece);
        if piece.len() < PIECE {
            return Ok(());
        }
        piece.drain(..piece.len() - OVERLAP);
    }
}

/// All files of a recording by their names in it, sorted.
fn files(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(dir.join(&folder))? {
            let entry = entry?;
            let name = folder.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(name);
            } else if kind.is_file() {
                names.push(name.to_string_lossy().into_owned());
            }
        }
    }
    names.sort();
    Ok(names)
}

/// SHA-256 of every file but the manifest and what is derived.
pub(crate) fn digests(dir: &Path) -> io::Result<BTreeMap<String, String>> {
    let derived = format!("{}/", folder::NORMALIZED);
    let mut digests = BTreeMap::new();
    for name in files(dir)? {
        if name != folder::MANIFEST && !name.starts_with(&derived) {
            let mut hasher = Sha256::new();
            io::copy(&mut File::open(dir.join(&name))?, &mut hasher)?;
            digests.insert(name, hex(hasher.finalize()));
        }
    }
    Ok(digests)
}
