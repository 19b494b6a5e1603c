//! Our own kernel, recorded like any other harness.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use crate::adapter::{Export, HarnessAdapter, Install, Plan, Release, RipgrepUse};
use crate::error::HarnessError;
use crate::launch::{HarnessFuture, Launch};
use crate::sandbox::Sandbox;
use crate::supervisor::Supervisor;

/// Time limit of one export.
const EXPORT_DEADLINE: Duration = Duration::from_secs(60);

/// The version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// This program.
pub(crate) struct Offshoot;

impl HarnessAdapter for Offshoot {
    fn name(&self) -> &'static str {
        "offshoot"
    }

    fn versions(&self) -> &'static [&'static str] {
        &[VERSION]
    }

    fn ripgrep(&self) -> RipgrepUse {
        RipgrepUse::Never
    }

    fn default_model(&self) -> &'static str {
        "haiku"
    }

    /// Nothing is installed: the harness is the running program.
    fn install(&self, release: &Release) -> Result<Option<Install>, HarnessError> {
        if release.version == VERSION {
            return Ok(None);
        }
        Err(HarnessError::usage(
            format!("this offshoot is {VERSION} and cannot record itself as {}", release.version),
            "omit `--harness-version`, or start that version of offshoot",
        ))
    }

    fn program(&self, prefix: &Path) -> Result<PathBuf, HarnessError> {
        Ok(prefix.to_owned())
    }

    fn without_install(&self, _: &[String]) -> Result<PathBuf, HarnessError> {
        std::env::current_exe().map_err(HarnessError::io("find", Path::new("/proc/self/exe")))
    }

    /// Gives it a fixed clock and run id, so that its model sees the same text in each run.
    fn prepare(&self, plan: &Plan, sandbox: &Sandbox) -> Result<Launch, HarnessError> {
        let config = sandbox.home().join(".config/offshoot");
        for kind in ["agents", "skills"] {
            let given = sandbox.workspace().join(".offshoot").join(kind);
            if given.is_dir() {
                // The author of the scenario has read them. A project's own agents would have to be accepted
                // first.
                copy(&given, &config.join(kind)).map_err(HarnessError::io("copy", &given))?;
            }
        }
        let endpoints = &plan.endpoints;
        let env = BTreeMap::from([
            ("ANTHROPIC_BASE_URL".to_owned(), endpoints.anthropic.clone()),
            ("ANTHROPIC_API_KEY".to_owned(), endpoints.anthropic_key.clone()),
            ("OPENAI_BASE_URL".to_owned(), endpoints.openai.clone()),
            ("OPENAI_API_KEY".to_owned(), endpoints.openai_key.clone()),
            ("OFFSHOOT_CLOCK".to_owned(), format!("{}[{}]", plan.clock.started_at, plan.clock.time_zone)),
            ("OFFSHOOT_RUN_ID".to_owned(), run_id(plan)),
        ]);
        let args = ["run", "--json", "--events", "all", "--model", &plan.model].map(str::to_owned);
        let args = args.into_iter().chain(plan.arguments.iter().cloned());
        Ok(Launch {
            program: plan.program.clone(),
            args: args.chain(["--".to_owned(), plan.prompt.clone()]).collect(),
            env,
        })
    }

    /// Exports the journal: the main run to `offshoot_export.json`, the others to `offshoot_export.<run>.json`.
    fn exports<'a>(
        &'a self,
        plan: &'a Plan,
        sandbox: &'a Sandbox,
        supervisor: &'a mut Supervisor,
    ) -> HarnessFuture<'a, Result<Vec<Export>, HarnessError>> {
        Box::pin(async move {
            let main = run_id(plan);
            let (path, shown) = show(plan, sandbox, supervisor, &main).await?;
            // Without a main run, the program ended before it began one.
            let Some(shown) = shown else { return Ok(Vec::new()) };
            let mut exports = vec![Export { name: "offshoot_export.json".to_owned(), path }];
            let lanes = shown["lanes"].as_array().into_iter().flatten();
            for run in lanes.filter_map(|lane| lane["id"].as_str()).filter(|run| *run != main) {
                let (path, shown) = show(plan, sandbox, supervisor, run).await?;
                let name = format!("offshoot_export.{run}.json");
                exports.extend(shown.map(|_| Export { name, path }));
            }
            Ok(exports)
        })
    }
}

/// Returns the id of the main run, which is the same in each capture.
fn run_id(plan: &Plan) -> String {
    format!("1m7g{}", plan.session_id.replace('-', "").split_at(12).0)
}

/// Prints a run of the journal into a file. Returns the file, and its content if there is such a run.
async fn show(
    plan: &Plan,
    sandbox: &Sandbox,
    supervisor: &mut Supervisor,
    run: &str,
) -> Result<(PathBuf, Option<Value>), HarnessError> {
    let path = sandbox.scratch().join(format!("{run}.json"));
    let args = ["show", run, "--format", "json"].map(str::to_owned).to_vec();
    let launch = Launch { program: plan.program.clone(), args, env: BTreeMap::new() };
    supervisor.run(&launch, path.clone(), EXPORT_DEADLINE).await?;
    let text = std::fs::read_to_string(&path).map_err(HarnessError::io("read", &path))?;
    Ok((path, serde_json::from_str(&text).ok()))
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &to)?,
            false => drop(std::fs::copy(entry.path(), to)?),
        }
    }
    Ok(())
}
