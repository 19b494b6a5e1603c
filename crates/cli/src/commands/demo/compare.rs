//! Two executions of one run, laid side by side: everything that was said and done in them, and what it left.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use store::{Filter, ModelCallStatus, Options, Store, StoreError};

use crate::failure::{Kind, OrFail};

/// How much of a value is shown before and behind the place where it differs.
const AROUND: usize = 24;

/// What one execution came to. Times and money are no part of it.
pub(super) struct Told {
    /// By run, everything in its order: what it is, and its bytes.
    runs: BTreeMap<String, Vec<(String, String)>>,
    files: BTreeMap<String, Vec<u8>>,
}

impl Told {
    pub(super) fn read(journal: &Path, workspace: &Path) -> anyhow::Result<Self> {
        let store = Store::open(journal, Options::default()).or_fail(Kind::Outside)?;
        let mut files = BTreeMap::new();
        gather(workspace, workspace, &mut files).or_fail(Kind::Outside)?;
        Ok(Self { runs: runs(&store).or_fail(Kind::Outside)?, files })
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |kind: &str| {
            let all = self.runs.values().flatten();
            all.filter(|(what, _)| what.starts_with(kind)).count()
        };
        let (runs, messages, calls) = (self.runs.len(), of("message"), of("call"));
        write!(f, "{runs} agents, {messages} messages, {calls} calls, {} files", self.files.len())
    }
}

fn runs(store: &Store) -> Result<BTreeMap<String, Vec<(String, String)>>, StoreError> {
    let mut told = BTreeMap::new();
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
        told.insert(run.id.to_string(), parts);
    }
    Ok(told)
}

fn gather(folder: &Path, root: &Path, files: &mut BTreeMap<String, Vec<u8>>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            gather(&path, root, files)?;
        } else {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            files.insert(name, std::fs::read(&path)?);
        }
    }
    Ok(())
}

/// The first place where two executions are not the same.
pub(super) fn first_difference(one: &Told, other: &Told) -> Option<String> {
    let ids = one.runs.keys().chain(other.runs.keys()).collect::<BTreeSet<_>>();
    for id in ids {
        let (Some(was), Some(is)) = (one.runs.get(id), other.runs.get(id)) else {
            let which = if one.runs.contains_key(id) { "no more" } else { "new" };
            return Some(format!("the run `{id}` is {which}"));
        };
        for n in 0..was.len().max(is.len()) {
            match (was.get(n), is.get(n)) {
                (Some(was), Some(is)) if was == is => {}
                (Some((what, was)), Some((is_what, is))) if what == is_what => {
                    return Some(format!("{what} of `{id}`: {}", differing(was, is)));
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
            _ => "holds something else",
        };
        format!("the file `{name}` {what}")
    })
}

/// Both values where they part.
fn differing(was: &str, is: &str) -> String {
    let same = was.chars().zip(is.chars()).take_while(|(a, b)| a == b).count();
    let piece =
        |text: &str| -> String { text.chars().skip(same.saturating_sub(AROUND)).take(2 * AROUND).collect() };
    format!("`{}` instead of `{}`", piece(is), piece(was))
}

/// How many agents below main wait for an answer that is not their first. None where there is no journal yet.
pub(super) fn waiting_for_a_model(journal: &Path) -> usize {
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
    count().unwrap_or_default() // a journal that is just being made is looked at again
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(last: &str, file: &str) -> Told {
        let parts = vec![("message 1".to_owned(), "hi".to_owned()), ("end".to_owned(), last.to_owned())];
        Told {
            runs: BTreeMap::from([("demo".to_owned(), parts)]),
            files: BTreeMap::from([("a.txt".to_owned(), file.as_bytes().to_vec())]),
        }
    }

    #[test]
    fn a_difference_is_named_by_its_place() {
        let differs = |other: &Told| first_difference(&told("completed Four.", "a"), other);
        assert_eq!(differs(&told("completed Four.", "a")), None);
        assert_eq!(
            differs(&told("completed Five.", "a")).as_deref(),
            Some("end of `demo`: `completed Five.` instead of `completed Four.`")
        );
        assert_eq!(
            differs(&told("completed Four.", "b")).as_deref(),
            Some("the file `a.txt` holds something else")
        );
        let mut other = told("completed Four.", "a");
        other.runs.insert("demo-2-0".to_owned(), Vec::new());
        assert_eq!(differs(&other).as_deref(), Some("the run `demo-2-0` is new"));
        other.runs.remove("demo-2-0");
        other.runs.get_mut("demo").expect("it is there").pop();
        assert_eq!(differs(&other).as_deref(), Some("`demo` has nothing instead of end"));
        other.files.clear();
        other.runs = told("completed Four.", "a").runs;
        assert_eq!(differs(&other).as_deref(), Some("the file `a.txt` is missing"));
    }
}
