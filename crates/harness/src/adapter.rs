//! What offshoot must know of a kind of harness to record it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use crate::error::HarnessError;
use crate::sandbox::Sandbox;
use crate::warden::{Ended, Warden};

/// Something that takes time.
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One kind of harness.
pub trait Harness: Send + Sync {
    /// As people type it, as in `claude-code`.
    fn name(&self) -> &'static str;

    /// The versions that are tested, oldest first: the last is the default. Any other is tried too.
    fn versions(&self) -> &'static [&'static str];

    /// For a plugin: the program that loads it.
    fn host(&self) -> Option<Host> {
        None
    }

    /// What npm must install, and the program then. `None` for a harness that nobody installs.
    ///
    /// An error says that this release cannot be: a host that is too old for its plugin, say.
    fn install(&self, release: &Release) -> Result<Option<Install>, HarnessError>;

    /// The program of an installation in `prefix`, asked after npm has run. Post-install scripts have not.
    fn program(&self, prefix: &Path) -> Result<PathBuf, HarnessError>;

    /// The program of a harness that nobody installs: the first of the arguments.
    fn without_install(&self, arguments: &[String]) -> Result<PathBuf, HarnessError> {
        crate::capture::given_program(arguments)
    }

    /// Ways to run it, the usual one first. A scenario may ask for another one by name.
    fn modes(&self) -> &'static [Mode] {
        &[]
    }

    /// The providers whose dialects it speaks.
    fn providers(&self) -> &'static [Provider] {
        &[Provider::Anthropic, Provider::OpenAi]
    }

    /// It may call a ripgrep. One that never does need not wait for it.
    fn uses_ripgrep(&self) -> bool {
        true
    }

    /// It expects a ripgrep on the machine.
    fn needs_ripgrep(&self) -> bool {
        false
    }

    /// The model, where neither the scenario nor the user names one.
    fn default_model(&self) -> &'static str;

    /// Writes its settings into the sandbox's HOME and workspace, and says how it is started.
    fn prepare(&self, plan: &Plan, sandbox: &Sandbox) -> Result<Launch, HarnessError>;

    /// Waits for the started program to be done. A harness that serves an API is asked here, through
    /// [`Warden::connect`], and ended when the conversation is over.
    fn drive<'a>(
        &'a self,
        plan: &'a Plan,
        sandbox: &'a Sandbox,
        warden: &'a mut Warden,
    ) -> Doing<'a, Result<Ended, HarnessError>> {
        let _ = (plan, sandbox);
        Box::pin(warden.wait())
    }

    /// What it left behind that belongs under `exports/`. It has ended; [`Warden::run`] may start its program
    /// again, sealed like the first time.
    fn exports<'a>(
        &'a self,
        plan: &'a Plan,
        sandbox: &'a Sandbox,
        warden: &'a mut Warden,
    ) -> Doing<'a, Result<Vec<Export>, HarnessError>>;
}

/// Who answers models' calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// Anthropic, and whoever speaks like it.
    Anthropic,
    /// OpenAI, and whoever speaks like it.
    OpenAi,
}

impl Provider {
    /// As paths name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }

    pub(crate) fn url(self) -> &'static str {
        match self {
            Self::Anthropic => "https://api.anthropic.com",
            Self::OpenAi => "https://api.openai.com/v1",
        }
    }

    /// Where everybody expects its address to be given.
    pub(crate) fn url_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_BASE_URL",
            Self::OpenAi => "OPENAI_BASE_URL",
        }
    }

    /// Where everybody expects its key to be given.
    pub(crate) fn key_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::OpenAi => "OPENAI_API_KEY",
        }
    }
}

/// The program that loads a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host {
    /// As in `opencode`.
    pub name: &'static str,
    /// The host's versions that are tested, each with the plugin's version of the same place in
    /// [`Harness::versions`].
    pub versions: &'static [&'static str],
}

/// A version, and that of the host where it is a plugin's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    /// The harness.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its host and the host's version.
    pub host: Option<(String, String)>,
}

impl Release {
    /// The name of its folder: the version, or host and plugin as in
    /// `opencode_1.0.185__oh-my-opencode_2.14.0`.
    pub fn folder(&self) -> String {
        match &self.host {
            Some((host, version)) => format!("{host}_{version}__{}_{}", self.name, self.version),
            None => self.version.clone(),
        }
    }
}

/// What npm installs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// The packages, all into one prefix.
    pub packages: Vec<Package>,
}

/// One npm package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// As npm knows it.
    pub name: String,
    /// The version.
    pub version: String,
}

/// One way to run a harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// As scenarios name it.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
}

/// What is to be done, with everything decided.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What runs.
    pub release: Release,
    /// The folder that npm installed into; the program's own folder where nothing was installed.
    pub prefix: PathBuf,
    /// The program.
    pub program: PathBuf,
    /// What it is asked.
    pub prompt: String,
    /// The model's name, as this harness wants it.
    pub model: String,
    /// One of [`Harness::modes`].
    pub mode: Option<String>,
    /// Where the model is.
    pub endpoints: Endpoints,
    /// A real provider answers, and its key counts.
    pub live: bool,
    /// A UUID for the session, the same in every run.
    pub session_id: String,
    /// The moment that a harness sees which takes its clock from us.
    pub clock: recording::Clock,
    /// Variables that the scenario or the user sets; they win over the adapter's.
    pub env: BTreeMap<String, String>,
    /// Arguments of the user's own, behind `--`.
    pub arguments: Vec<String>,
}

/// Where a harness finds its model, and the keys it sends there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Base URL without a version, as Anthropic's clients want it: `/v1/messages` is added to it.
    pub anthropic: String,
    /// Base URL with its version, as OpenAI's clients want it: `/responses` is added to it.
    pub openai: String,
    /// A key that the scripted model ignores, or the user's own when live.
    pub anthropic_key: String,
    /// The same for OpenAI.
    pub openai_key: String,
}

/// How a program is started. The workspace is its working folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// What is set for it beside what [`Sandbox::env`] sets.
    pub env: BTreeMap<String, String>,
}

/// A file that goes into the recording's `exports/`, redacted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name there; may have folders.
    pub name: String,
    /// Where it is now.
    pub path: PathBuf,
}
