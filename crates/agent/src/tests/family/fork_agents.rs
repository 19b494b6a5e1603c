//! Forks that run as another agent.

use serde_json::json;

use super::*;

/// A folder with definitions of the user.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    fn agent(self, name: &str, front: &str) -> Self {
        self.write(
            &format!("agents/{name}.md"),
            &format!("---\ndescription: works\n{front}---\nI am {name}."),
        )
    }

    /// A skill `look` that a fork follows.
    fn skill(self, front: &str) -> Self {
        self.write("skills/look/SKILL.md", &format!("---\ndescription: looks\n{front}---\nLook again."))
    }

    fn write(self, path: &str, text: &str) -> Self {
        let file = self.0.path().join("user").join(path);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, text).expect("a file");
        self
    }

    fn load(&self, stage: &Stage) -> definition::Definitions {
        let user = self.0.path().join("user");
        let places = definition::DefinitionFolders { project: self.0.path(), user: &user };
        let known: Vec<String> = stage.kernel().tools.names().map(str::to_owned).collect();
        let all = definition::Definitions::load(places, &definition::Trust::default(), &known);
        assert!(all.is_sound() && all.files.iter().all(|file| file.unused.is_empty()), "{:?}", all.files);
        all
    }
}

/// Collects the reports of forks.
#[derive(Default)]
struct Reports(Mutex<Vec<ForkReport>>);

impl EventSink for Reports {
    fn emit(&self, event: &RunEvent) {
        if let EventKind::ForkEnded(report) = &event.kind {
            self.0.lock().expect("lock is not poisoned").push((**report).clone());
        }
    }
}

impl Reports {
    fn last(&self) -> ForkReport {
        self.0.lock().expect("lock is not poisoned").last().expect("a fork has ended").clone()
    }
}

const CALLS: &str = r#"echo{"say":"y"} + put{"n":1} + count{}"#;

/// Runs a main agent that reads the skill `look`, and returns its fork's report.
async fn with_skill(stage: &mut Stage, files: &Files) -> ForkReport {
    let reports = Arc::new(Reports::default());
    stage.events = reports.clone();
    let all = files.load(stage);
    stage.agents = all.agents;
    let run = stage.start("Do it.").await;
    let kernel = Kernel { skills: all.skills.into(), ..stage.kernel() };
    kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("it runs");
    reports.last()
}

fn stage() -> Stage {
    Stage::new(&[("Do it.", &["skill{\"name\":\"look\"}", "Done."]), ("Look again.", &[CALLS, "Looked."])])
}

fn names(body: &Value) -> Vec<&str> {
    body["tools"].as_array().expect("tools").iter().filter_map(|tool| tool["name"].as_str()).collect()
}

#[tokio::test]
async fn a_skill_s_fork_has_the_instructions_and_tools_of_its_agent() {
    let files = Files::new().agent("reader", "tools: echo, count\n").skill("context: fork\nagent: reader\n");
    let mut stage = stage();
    let report = with_skill(&mut stage, &files).await;
    assert_eq!(report.differs, ["tools", "instructions"]);
    assert_eq!(
        (stage.row("m-2-0").agent.as_str(), &stage.result("m", 0)["final_text"]),
        ("reader", &json!("Looked."))
    );
    let (main, fork) = (stage.sent("m").remove(0), stage.sent("m-2-0"));
    assert_eq!(names(&fork[0]), ["echo", "count"]);
    assert!(fork[0]["system"].to_string().contains("I am reader."), "{}", fork[0]["system"]);
    assert_eq!(fork[0]["system"][0]["text"], main["system"][0]["text"], "it continues the main conversation");
    let text = |message: &Value| message.to_string().replace(laws::MARKER, "");
    assert_eq!(text(&fork[0]["messages"][0]), text(&main["messages"][0]), "the parent's messages stay");
    assert_eq!(fork[0]["model"], main["model"]);
    let results = stage.results("m-2-0");
    assert!(results[0] == "y" && results[2] == "1", "{results:?}");
    assert!(results[1].contains("`put`"), "{results:?}");
    // Every later request starts with the one before.
    laws::begins_with(&stage.bodies("m-2-0")[1], &stage.bodies("m-2-0")[0]);
}

#[tokio::test]
async fn an_agent_that_differs_in_nothing_shares_every_byte() {
    for agent in ["general-purpose", "plain"] {
        let files = Files::new().agent("plain", "").skill(&format!("context: fork\nagent: {agent}\n"));
        let mut stage = stage();
        // The main agent has the same instructions.
        let instructions = (agent == "plain").then(|| "I am plain.".to_owned());
        let all = files.load(&stage);
        let reports = Arc::new(Reports::default());
        (stage.agents, stage.events) = (all.agents, reports.clone());
        let start = StartRequest { id: Some(RunId::new("m")), instructions, ..stage.room.start_of("Do it.") };
        let run = stage.kernel().start(start).await.expect("started");
        let kernel = Kernel { skills: all.skills.into(), ..stage.kernel() };
        kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("it runs");
        assert!(reports.last().differs.is_empty(), "{:?}", reports.last());
        stage.shares();
    }
}

#[tokio::test]
async fn an_agent_with_other_instructions_shares_the_tools() {
    let files = Files::new().agent("plain", "").skill("context: fork\nagent: plain\n");
    let mut stage = stage();
    assert_eq!(with_skill(&mut stage, &files).await.differs, ["instructions"]);
    let tools = |run: &str| stage.sent(run).remove(0)["tools"].clone();
    assert_eq!(tools("m"), tools("m-2-0"));
}

#[tokio::test]
async fn an_agent_without_tools_is_sent_its_parents_and_may_call_none() {
    let files = Files::new().agent("mute", "tools: []\n").skill("context: fork\nagent: mute\n");
    let mut stage = stage();
    assert_eq!(with_skill(&mut stage, &files).await.differs, ["instructions"]);
    let calls = stage.store().run(&RunId::new("m-2-0")).tool_calls().expect("calls");
    assert!(calls.iter().all(|call| call.status == store::CallStatus::Denied), "{calls:?}");
}

#[tokio::test]
async fn an_unknown_agent_is_an_error_and_no_fork() {
    let files = Files::new().agent("plain", "").skill("context: fork\nagent: Explore\n");
    let mut stage = stage();
    let all = files.load(&stage);
    stage.agents = all.agents;
    let run = stage.start("Do it.").await;
    let kernel = Kernel { skills: all.skills.into(), ..stage.kernel() };
    kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("it runs");
    let result = &stage.results("m")[0];
    assert!(result.contains("no agent `Explore`") && result.contains("plain"), "{result}");
    assert_eq!(stage.runs().len(), 1);
}

#[tokio::test]
async fn an_agent_narrows_its_parents_rights_and_widens_none() {
    // It denies `echo`, and would allow itself what its parent asks about or denies.
    let front = "permission:\n  echo: deny\n  put:\n    \"*\": ask\n    \"1\": allow\n";
    let files = Files::new()
        .agent("bold", front)
        .skill("context: fork\nagent: bold\nallowed-tools: echo, put, count\n");
    let mut stage = stage();
    stage.room.own_rules = vec![(RuleList::Ask, "put".to_owned()), (RuleList::Deny, "count".to_owned())];
    let user = files.0.path().join("user");
    let places = definition::DefinitionFolders { project: files.0.path(), user: &user };
    let known: Vec<String> = stage.kernel().tools.names().map(str::to_owned).collect();
    let all = definition::Definitions::load(places, &definition::Trust::default(), &known);
    stage.agents = all.agents;
    let run = stage.start("Do it.").await;
    let kernel = Kernel { skills: all.skills.into(), ..stage.kernel() };
    kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("it runs");
    let calls = stage.store().run(&RunId::new("m-2-0")).tool_calls().expect("calls");
    assert!(calls.iter().all(|call| call.status != store::CallStatus::Done), "{calls:?}");
    let results = stage.results("m-2-0");
    assert!(results[1].contains("no terminal to ask on"), "{results:?}");
    assert!(results[2].contains("`count` denies it"), "{results:?}");
}

#[tokio::test]
async fn a_side_question_may_have_an_agent_and_keeps_it() {
    let files = Files::new().agent("reader", "tools: echo, count\nmaxTurns: 1\n");
    let mut stage = Stage::new(&[
        ("Do it.", &["echo{\"say\":\"x\"}", "Done."]),
        ("And?", &["@later put{\"n\":1}", "So."]),
        ("And then?", &["put{\"n\":1}", "Well."]),
    ]);
    stage.agents = files.load(&stage).agents;
    stage.room.own_rules = vec![(RuleList::Deny, "count".to_owned())];
    stage.run("Do it.").await;
    let kernel = stage.kernel();
    let fork = |prompt: &str, agent: &str| ForkRequest {
        agent: Some(agent.to_owned()),
        ..ForkRequest::new(prompt, "side", "test")
    };
    let refused = kernel.start_fork(&RunId::new("m"), &fork("And?", "nobody")).await;
    assert!(matches!(refused, Err(RunError::ForkRefused(_))), "{:?}", refused.map(|(id, _)| id));
    let (id, _) = kernel.start_fork(&RunId::new("m"), &fork("And?", "reader")).await.expect("a fork");
    // Killed before its first answer, and resumed by a process that does not have the agent any more.
    let (more, stop) = (ResumeOverrides::default(), StopHandle::new());
    tokio::select! {
        _ = kernel.run(&id, &more, &stop) => panic!("it was to be broken off"),
        _ = stage.play.wait_for(1) => {}
    }
    stage.play.open("later");
    stage.agents.clear();
    stage.kernel().resume(&id, None).await.expect("it can be resumed");
    let ended = stage.kernel().run(&id, &more, &stop).await.expect("it runs");
    assert_eq!(ended.final_text.as_deref(), Some("So."));
    let sent = stage.sent(id.as_str());
    assert_eq!(names(&sent[1]), ["echo", "count"]);
    assert!(stage.results(id.as_str())[0].contains("`put`"));
    let settings = RunSettings::from_bytes(&stage.row(id.as_str()).settings).expect("settings");
    assert_eq!(settings.max_steps, 1);
    assert!(settings.rules.contains(&(RuleList::Deny, "count".to_owned())), "{:?}", settings.rules);
    // A fork of it has its head and its rights.
    let next = stage.kernel().fork(&id, &ForkRequest::new("And then?", "side", "test"), &stop).await;
    let next = next.expect("forked").ended.run;
    assert_eq!(names(&stage.sent(next.as_str())[0]), ["echo", "count"]);
    assert!(stage.results(next.as_str())[0].contains("`put`"));
}
