//! Workspace for tests of tools.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use session::{Block, Role, RunId, ThreadId};
use store::{
    CallKey, Lease, Millis, NewMessage, NewRun, NewThread, Options, Origin, RunKind, RunThread, Seq, Store,
};
use tempfile::TempDir;

use crate::tools::builtin;
use crate::{Digest, Processes, ShellConfig, ToolContext, ToolOutput, Workspace};

/// A temporary workspace beside a folder that no tool may reach.
pub(crate) struct TestWorkspace {
    _home: TempDir,
    /// Path of the workspace.
    pub(crate) root: PathBuf,
    /// Folder outside the workspace. Its only file contains [`SECRET`].
    pub(crate) outside: PathBuf,
    pub(crate) context: ToolContext,
    /// Files that the calls so far have read or written.
    pub(crate) seen: Mutex<BTreeMap<PathBuf, Digest>>,
}

/// Text that no answer may contain.
pub(crate) const SECRET: &str = "kestrel-in-the-attic";

impl TestWorkspace {
    /// Creates the files: `path` with text, `path/` for a folder, `path -> target` for a link.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().expect("a folder for a test");
        let (root, outside) = (home.path().join("yard"), home.path().join("outside"));
        std::fs::create_dir(&root).expect("the workspace");
        std::fs::create_dir(&outside).expect("the folder beside it");
        std::fs::write(outside.join("secret.txt"), format!("{SECRET}\n")).expect("the secret");
        for (path, text) in files {
            let (path, to) = path.split_once(" -> ").unwrap_or((path, ""));
            let file = root.join(path);
            std::fs::create_dir_all(file.parent().expect("it is below the root")).expect("a folder");
            match (to, path.ends_with('/')) {
                ("", true) => std::fs::create_dir_all(&file).expect("a folder"),
                ("", false) => std::fs::write(&file, text).expect("a file"),
                (to, _) => symlink(to, &file).expect("a link"),
            }
        }
        let workspace = Arc::new(Workspace::open(&root).expect("the workspace opens"));
        let now = "2026-08-01T12:34:56.789+00:00[UTC]".parse().expect("a time");
        let processes = Arc::new(Processes::without_journal(ShellConfig::default(), home.path().join("tmp")));
        let store = journal(&home.path().join("store.db"), &root);
        let context = ToolContext {
            workspace,
            seen: Arc::default(),
            processes,
            now,
            store,
            thread: ThreadId::new("tyard"),
            call: CallKey { run: RunId::new("yard"), message: Seq(2), position: 0 },
            call_id: session::CallId::new("call"),
            rules: Vec::new(),
            skills: Arc::default(),
            caller: None,
            start_slot: None,
        };
        Self { _home: home, root, outside, context, seen: Mutex::default() }
    }

    /// Returns the context of the next call.
    pub(crate) fn context(&self) -> ToolContext {
        ToolContext {
            seen: Arc::new(self.seen.lock().expect("lock is not poisoned").clone()),
            ..self.context.clone()
        }
    }

    pub(crate) async fn call(&self, tool: &str, input: Value) -> ToolOutput {
        let tools = builtin();
        let tool = tools.iter().find(|known| known.name() == tool).expect("a built-in tool");
        let output = tool.call(&input, &self.context()).await;
        let seen = output.seen.iter().map(|file| (file.path.clone(), file.sha256));
        self.seen.lock().expect("lock is not poisoned").extend(seen);
        let shown = format_output(&output);
        assert!(!shown.contains(SECRET), "{} {input} showed what is outside", tool.name());
        output
    }

    /// Calls a tool and formats the answer.
    pub(crate) async fn ask(&self, tool: &str, input: Value) -> String {
        let output = self.call(tool, input).await;
        let home = self.root.parent().expect("it has one").canonicalize().expect("it is there");
        let text = format_output(&output).replace(&home.display().to_string(), "HOME");
        if output.is_error { format!("error: {text}\n") } else { text + "\n" }
    }

    /// Calls a tool with each input, and formats inputs and answers.
    pub(crate) async fn table<const N: usize>(&self, tool: &str, inputs: [Value; N]) -> String {
        let mut seen = String::new();
        for input in inputs {
            seen += &format!("--- {input}\n");
            seen += &self.ask(tool, input).await;
        }
        seen
    }

    /// Reads all files of a folder, to detect changes.
    pub(crate) fn tree(folder: &std::path::Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                all.extend(Self::tree(&path))
            } else {
                all.push((path.clone(), std::fs::read(path).expect("a file")))
            }
        }
        all.sort();
        all
    }
}

/// Creates a journal with one run.
fn journal(path: &Path, workspace: &Path) -> Store {
    let store = Store::open(path, Options::default()).expect("a journal");
    let at = Millis(1_785_500_000_000);
    let text = "Look around in the yard.".to_owned();
    let message = NewMessage {
        role: Role::User,
        origin: Origin::Prompt,
        bytes: b"{}".to_vec(),
        text: Some(text.clone()),
        at,
    };
    let workspace = workspace.display().to_string();
    let thread = NewThread { id: ThreadId::new("tyard"), title: text, workspace };
    let run = NewRun {
        id: RunId::new("yard"),
        thread: RunThread::New(thread),
        kind: RunKind::Main,
        parent: None,
        task: None,
        spawned_by: None,
        background: false,
        agent: "main".to_owned(),
        model: "claude-sonnet-5".to_owned(),
        provider: "test".to_owned(),
        settings: b"{}".to_vec(),
        chain: "yard".to_owned(),
        depth: 0,
        fork: None,
        messages: vec![message],
        at,
    };
    // The test's own runtime is busy on this thread.
    let kept = store.clone();
    let started = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(kept.start_run(run, Lease { pid: 1, start: 1 }))
    });
    started.join().expect("no panic").expect("started");
    store
}

/// Formats an answer as text, with other blocks in their debug form.
pub(crate) fn format_output(output: &ToolOutput) -> String {
    let blocks: Vec<String> = output
        .blocks
        .iter()
        .map(|block| match block {
            Block::Text { text } => text.clone(),
            other => format!("{other:?}"),
        })
        .collect();
    blocks.join("\n")
}
