//! The interface to a kind of harness.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::error::HarnessError;
use crate::launch::{HarnessFuture, Launch};
use crate::sandbox::Sandbox;
use crate::supervisor::{ProgramExit, Supervisor};

/// Need of a harness for ripgrep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RipgrepUse {
    /// It does not call ripgrep.
    Never,
    /// Ripgrep is provided if the machine has it. Nothing is installed.
    IfPresent,
    /// Ripgrep is installed if the machine has none. The harness works without it.
    Installed,
    /// Ripgrep is installed if the machine has none. The harness fails without it.
    Required,
}

/// Adapter of one kind of harness.
pub trait HarnessAdapter: Send + Sync {
    /// The name that users type, such as `claude-code`.
    fn name(&self) -> &'static str;

    /// The tested versions, oldest first. The last is the default; other versions may work.
    fn versions(&self) -> &'static [&'static str];

    /// For a plugin, the program that loads it.
    fn host(&self) -> Option<HostProgram> {
        None
    }

    /// The npm packages to install; `None` for a harness that is not installed.
    ///
    /// Fails if this release cannot run, such as a plugin with a host that is too old.
    fn install(&self, release: &Release) -> Result<Option<Install>, HarnessError>;

    /// Finds the program of an installation in `prefix`. npm has run, but no install scripts.
    fn program(&self, prefix: &Path) -> Result<PathBuf, HarnessError>;

    /// Finds the program of a harness that is not installed: the first argument.
    fn without_install(&self, arguments: &[String]) -> Result<PathBuf, HarnessError> {
        crate::programs::given_program(arguments)
    }

    /// The modes in which it can run, the default first. A scenario may select another one.
    fn modes(&self) -> &'static [Mode] {
        &[]
    }

    /// The providers whose dialects it can use.
    fn providers(&self) -> &'static [Provider] {
        &[Provider::Anthropic, Provider::OpenAi]
    }

    /// Returns whether ripgrep is provided, whose results are then sorted.
    fn ripgrep(&self) -> RipgrepUse {
        RipgrepUse::Installed
    }

    /// The model to use if neither the scenario nor the user names one.
    fn default_model(&self) -> &'static str;

    /// Writes its settings into HOME and the workspace, and returns the command to start.
    fn prepare(&self, plan: &Plan, sandbox: &Sandbox) -> Result<Launch, HarnessError>;

    /// Waits until the program has finished. For a harness with an API, sends the prompts through
    /// [`Supervisor::connect`] and ends it after the conversation.
    fn drive<'a>(
        &'a self,
        plan: &'a Plan,
        sandbox: &'a Sandbox,
        supervisor: &'a mut Supervisor,
    ) -> HarnessFuture<'a, Result<ProgramExit, HarnessError>> {
        let _ = (plan, sandbox);
        Box::pin(supervisor.wait())
    }

    /// Collects the files for `exports/` after the program has ended. May start the program again with
    /// [`Supervisor::run`], in the same isolation.
    fn exports<'a>(
        &'a self,
        plan: &'a Plan,
        sandbox: &'a Sandbox,
        supervisor: &'a mut Supervisor,
    ) -> HarnessFuture<'a, Result<Vec<Export>, HarnessError>>;
}

/// The provider of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Provider {
    /// Anthropic, or a server with the same API.
    Anthropic,
    /// OpenAI, or a server with the same API.
    OpenAi,
}

impl Provider {
    /// The name in paths.
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

    /// The variable that clients read its base URL from.
    pub(crate) fn url_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_BASE_URL",
            Self::OpenAi => "OPENAI_BASE_URL",
        }
    }

    /// The variable that clients read its key from.
    pub(crate) fn key_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::OpenAi => "OPENAI_API_KEY",
        }
    }
}

/// The program that loads a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostProgram {
    /// Its name, such as `opencode`.
    pub name: &'static str,
    /// The tested versions of the host, each for the plugin's version at the same index of
    /// [`HarnessAdapter::versions`].
    pub versions: &'static [&'static str],
}

/// A version of a harness and, for a plugin, of its host.
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
    /// Returns the name of its folder in the cache: the version, or host and plugin as in
    /// `opencode_1.0.185__oh-my-opencode_2.14.0`.
    pub fn folder(&self) -> String {
        match &self.host {
            Some((host, version)) => format!("{host}_{version}__{}_{}", self.name, self.version),
            None => self.version.clone(),
        }
    }
}

/// The npm packages of a harness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// The packages, installed into one prefix.
    pub packages: Vec<Package>,
}

/// One npm package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// Its npm name.
    pub name: String,
    /// The version.
    pub version: String,
}

/// A mode of a harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The name that scenarios use.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
}

/// A complete plan for one run of a harness.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The release to run.
    pub release: Release,
    /// The folder that npm installed into, or the program if nothing was installed.
    pub prefix: PathBuf,
    /// The program.
    pub program: PathBuf,
    /// The prompt.
    pub prompt: String,
    /// The model, in the harness's own notation.
    pub model: String,
    /// One of [`HarnessAdapter::modes`].
    pub mode: Option<String>,
    /// The addresses of the model.
    pub endpoints: Endpoints,
    /// True if a real provider answers, so that the keys matter.
    pub live: bool,
    /// A UUID for the session, the same in each run.
    pub session_id: String,
    /// The time that a harness sees if it takes its clock from us.
    pub clock: recording::Clock,
    /// Variables of the scenario or the user. They override the adapter's.
    pub env: BTreeMap<String, String>,
    /// The user's arguments after `--`.
    pub arguments: Vec<String>,
}

/// Addresses of a harness's model and the keys for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Base URL without a version, for Anthropic clients, which append `/v1/messages`.
    pub anthropic: String,
    /// Base URL with a version, for OpenAI clients, which append `/responses`.
    pub openai: String,
    /// The Anthropic key: the user's if live, otherwise one that the scripted model ignores.
    pub anthropic_key: String,
    /// The OpenAI key, likewise.
    pub openai_key: String,
}

/// A file for the recording's `exports/`, redacted when it is copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Its name there; may contain folders.
    pub name: String,
    /// Its current path.
    pub path: PathBuf,
}
