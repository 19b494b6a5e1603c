//! Compares two executions of one run: messages, calls, results and files.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use store::{Filter, ModelCallStatus, Options, Store, StoreError};

use crate::failure::{ExitKind, OrFail};

/// Number of characters that are shown before and after a difference.
const CONTEXT: usize = 24;

/// Content of one execution, without times and cost.
pub(super) struct Execution {
    /// Names and bytes of all parts of each run, in order.
    runs: BTreeMap<String, Vec<(String, String)>>,
    files: BTreeMap<String, Vec<u8>>,
}

impl Execution {
    /// Reads an execution from its journal and its workspace.
    pub(super) fn read(journal: &Path, workspace: &Path) -> anyhow::Result<Self> {
        let store = Store::open(journal, Options::default()).or_fail(ExitKind::Outside)?;
        let mut files = BTreeMap::new();
        read_files(workspace, workspace, &mut files).or_fail(ExitKind::Outside)?;
        Ok(Self { runs: run_parts(&store).or_fail(ExitKind::Outside)?, files })
    }
}

impl fmt::Display for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |kind: &str| {
            let parts = self.runs.values().flatten();
            parts.filter(|(name, _)| name.starts_with(kind)).count()
        };
        let (runs, messages, calls) = (self.runs.len(), count("message"), count("call"));
        write!(f, "{runs} agents, {messages} messages, {calls} calls, {} files", self.files.len())
    }
}

fn run_parts(store: &Store) -> Result<BTreeMap<String, Vec<(String, String)>>, StoreError> {
    let mut runs = BTreeMap::new();
    for run in store.runs(&Filter::default())? {
        let reads = store.run(&run.id);
        let mut parts = Vec::new();
        for message in reads.messages()? {
            let bytes = String::from_utf8_lossy(&message.bytes).into_owned();
            parts.push((format!("message {}", message.seq.0), format!("{:?} {bytes}", message.origin)));
        }
        for call in reads.tool_calls()? {
            let result = serde_json::to_string(&call.result).unwrap_or_default();
            parts.push((format!("call {}", call.call), format!("{} {result}", call.status.as_str())));
        }
        let heads: BTreeSet<String> = reads.model_calls()?.iter().map(|call| call.head.to_string()).collect();
        parts.push(("tools and instructions".to_owned(), heads.into_iter().collect::<Vec<_>>().join(" ")));
        let row = reads.row()?;
        parts.push((
            "end".to_owned(),
            format!("{} {}", row.status.words(), row.final_text.unwrap_or_default()),
        ));
        runs.insert(run.id.to_string(), parts);
    }
    Ok(runs)
}

fn read_files(folder: &Path, root: &Path, files: &mut BTreeMap<String, Vec<u8>>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read_files(&path, root, files)?;
        } else {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            files.insert(name, std::fs::read(&path)?);
        }
    }
    Ok(())
}

/// Describes the first difference between two executions.
pub(super) fn first_difference(one: &Execution, other: &Execution) -> Option<String> {
    let ids = one.runs.keys().chain(other.runs.keys()).collect::<BTreeSet<_>>();
    for id in ids {
        let (Some(was), Some(is)) = (one.runs.get(id), other.runs.get(id)) else {
            let which = if one.runs.contains_key(id) { "missing" } else { "new" };
            return Some(format!("run `{id}` is {which}"));
        };
        for n in 0..was.len().max(is.len()) {
            match (was.get(n), is.get(n)) {
                (Some(was), Some(is)) if was == is => {}
                (Some((what, was)), Some((is_what, is))) if what == is_what => {
                    return Some(format!("{what} of `{id}`: {}", excerpts(was, is)));
                }
                (was, is) => {
                    let name =
                        |part: Option<&(String, String)>| part.map_or("nothing", |(what, _)| what).to_owned();
                    return Some(format!("`{id}` has {} instead of {}", name(is), name(was)));
                }
            }
        }
    }
    let names = one.files.keys().chain(other.files.keys()).collect::<BTreeSet<_>>();
    names.into_iter().find(|name| one.files.get(*name) != other.files.get(*name)).map(|name| {
        let what = match (one.files.get(name), other.files.get(name)) {
            (Some(_), None) => "is missing",
            (None, _) => "is new",
            _ => "has other content",
        };
        format!("file `{name}` {what}")
    })
}

/// Shows both values at the place where they differ.
fn excerpts(was: &str, is: &str) -> String {
    let same = was.chars().zip(is.chars()).take_while(|(a, b)| a == b).count();
    let piece = |text: &str| -> String {
        text.chars().skip(same.saturating_sub(CONTEXT)).take(2 * CONTEXT).collect()
    };
    format!("`{}` instead of `{}`", piece(is), piece(was))
}

/// Counts the sub-agents that wait for a reply that is not their first. Returns 0 if there is no journal yet.
pub(super) fn waiting_sub_agents(journal: &Path) -> usize {
    if !journal.exists() {
        return 0;
    }
    let count = || -> Result<usize, StoreError> {
        let store = Store::open(journal, Options::default())?;
        let mut waiting = 0;
        for run in store.runs(&Filter::default())?.iter().filter(|run| run.parent.is_some()) {
            let calls = store.run(&run.id).model_calls()?;
            let open = calls.last().is_some_and(|call| call.status != ModelCallStatus::Answered);
            waiting += usize::from(open && calls.len() > 1);
        }
        Ok(waiting)
    };
    count().unwrap_or_default() // a journal that is being created is read again later
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execution(last: &str, file: &str) -> Execution {
        let parts = vec![("message 1".to_owned(), "hi".to_owned()), ("end".to_owned(), last.to_owned())];
        Execution {
            runs: BTreeMap::from([("demo".to_owned(), parts)]),
            files: BTreeMap::from([("a.txt".to_owned(), file.as_bytes().to_vec())]),
        }
    }

    #[test]
    fn a_difference_is_named_by_its_place() {
        let differs = |other: &Execution| first_difference(&execution("completed Four.", "a"), other);
        assert_eq!(differs(&execution("completed Four.", "a")), None);
        assert_eq!(
            differs(&execution("completed Five.", "a")).as_deref(),
            Some("end of `demo`: `completed Five.` instead of `completed Four.`")
        );
        assert_eq!(
            differs(&execution("completed Four.", "b")).as_deref(),
            Some("file `a.txt` has other content")
        );
        let mut other = execution("completed Four.", "a");
        other.runs.insert("demo-2-0".to_owned(), Vec::new());
        assert_eq!(differs(&other).as_deref(), Some("run `demo-2-0` is new"));
        other.runs.remove("demo-2-0");
        other.runs.get_mut("demo").expect("it is there").pop();
        assert_eq!(differs(&other).as_deref(), Some("`demo` has nothing instead of end"));
        other.files.clear();
        other.runs = execution("completed Four.", "a").runs;
        assert_eq!(differs(&other).as_deref(), Some("file `a.txt` is missing"));
    }
}
