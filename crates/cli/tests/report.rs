//! `offshoot report`, looked at in a real browser.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop right there")]

mod common;

use common::browser::Browser;
use common::*;
use serde_json::{Value, json};

/// Markup, a script's end, an escape, a turn of the direction of writing, and a name that is not one.
const HOSTILE: &str = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">\\u001b[2J\\u202eevil\\u202c {\\\"__proto__\\\": 1}";

/// Main starts two jobs, does something itself, and is woken; what they say is hostile.
const SCRIPT: &str = r#"
format: 1
lanes:
  - lane: one
    match: { prompt_contains: "First errand" }
    turns:
      - reply: [ { call: { tool: read, input: { path: notes.txt } } } ]
      - reply: [ { text: "HOSTILE" } ]
  - lane: two
    match: { prompt_contains: "Second errand" }
    turns:
      - wait_for: [ { lane: main, turn: 3 } ]
        reply: [ { text: "the needle of the second" } ]
  - lane: main
    match: { tools_include: spawn_sub_agent }
    turns:
      - reply:
          - text: "Both go."
          - call: { tool: spawn_sub_agent, id: toolu_one, input: { prompt: "First errand" } }
          - call: { tool: spawn_sub_agent, id: toolu_two, input: { prompt: "Second errand", run_in_background: true } }
      - reply: [ { call: { tool: read, id: toolu_gone, input: { path: gone.txt } } } ]
      - reply: [ { text: "I end my turn." } ]
      - reply: [ { text: "All is done." } ]
"#;

/// A recording `rec` and the run it was made of.
fn recorded(env: &TestEnv, rec: &str) {
    env.write(
        "script.yaml",
        &SCRIPT.replace("HOSTILE", &HOSTILE.replace('"', "\\\"").replace("\\\\\"", "\\\\\\\"")),
    );
    env.write("notes.txt", "some notes\n");
    let said = env.run(&["run", "--script", "script.yaml", "--cache-sim", "--record", rec, "Do both."]);
    assert_eq!((said.code, said.stdout.trim()), (Some(0), "All is done."), "{said:?}");
}

fn report(env: &TestEnv, arguments: &[&str], out: &str) -> std::path::PathBuf {
    let said = env.run(&[&["report"], arguments, &["--out", out]].concat());
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), format!("{out}\n").as_str()), "{said:?}");
    env.path(out)
}

/// Goes to an address in the page and waits until it is drawn.
fn visit(browser: &mut Browser, hash: &str) {
    browser.eval(&format!(
        "(location.hash = {}, new Promise(requestAnimationFrame).then(() => offshootReport.idle()))",
        json!(hash)
    ));
}

/// Opens request and response of what is shown.
fn open_halves(browser: &mut Browser) {
    browser.eval("document.querySelectorAll('[data-half]').forEach(it => { it.open = true; })");
    browser.until("document.querySelectorAll('[data-half] pre').length > 1");
    browser.eval("offshootReport.idle()");
}

fn count(browser: &mut Browser, selector: &str) -> u64 {
    browser.eval(&format!("document.querySelectorAll({}).length", json!(selector))).as_u64().unwrap()
}

/// The lane of the errand that main waits for: the two are begun at once, and either may ask first.
fn waited_for(browser: &mut Browser) -> String {
    let found = "offshootReport.report.lanes.find(it => it.kind === 'sub' && !it.background).id";
    browser.eval(found).as_str().unwrap().to_owned()
}

fn text(browser: &mut Browser, selector: &str) -> String {
    let text = browser.eval(&format!(
        "[...document.querySelectorAll({})].map(it => it.innerText).join('\\n')",
        json!(selector)
    ));
    text.as_str().unwrap().to_owned()
}

/// Nothing sticks out to the side, and the page has nothing to complain of.
fn is_in_order(browser: &mut Browser, what: &str) {
    let wide = browser.eval("document.documentElement.scrollWidth - innerWidth").as_i64().unwrap();
    assert!(wide <= 0, "{what}: {wide} pixels too wide");
    assert_eq!(browser.complaints, Vec::<String>::new(), "{what}");
}

#[test]
fn a_recording_is_a_page_that_opens_expands_searches_and_compares() {
    let env = TestEnv::new();
    recorded(&env, "rec");
    let page = report(&env, &["rec"], "page.html");
    let mut browser = Browser::open(&page, 1280, 800);
    // The timeline: a row for each lane, what started whom and who woke whom.
    visit(&mut browser, "view=timeline");
    assert_eq!(
        browser.eval("offshootReport.report.lanes.map(it => it.id)"),
        json!(["main", "sub-1", "sub-2"])
    );
    for lane in ["main", "sub-1", "sub-2"] {
        assert!(count(&mut browser, &format!("[data-view] [data-lane='{lane}']")) > 0, "{lane}");
    }
    let arrows =
        browser.eval("[...document.querySelectorAll('[data-arrow]')].map(it => it.dataset.arrow).sort()");
    assert_eq!(arrows, json!(["result", "spawn", "spawn", "wake"]));
    // A turn opens to what went in, the tools, the calls, the results and the bytes.
    visit(&mut browser, "turn=main:2");
    let shown = text(&mut browser, "main");
    assert!(shown.contains("read") && shown.contains("gone.txt"), "{shown}");
    visit(&mut browser, "turn=main:1&show=tools");
    assert!(text(&mut browser, "[data-section='tools']").contains("spawn_sub_agent"));
    visit(&mut browser, "turn=main:1&show=raw");
    open_halves(&mut browser);
    assert!(text(&mut browser, "main").contains("POST "));
    // With the one before it: what came is named by its pointer.
    visit(&mut browser, "turn=main:2&compare=before");
    let pointers =
        browser.eval("[...document.querySelectorAll('[data-pointer]')].map(it => it.dataset.pointer)");
    let added = |it: &Value| it.as_str().is_some_and(|it| it.starts_with("/messages/"));
    assert!(pointers.as_array().unwrap().iter().any(added), "{pointers}");
    // By the keyboard: search, and go to what was found.
    browser.press("/");
    browser.type_text("needle of the second");
    browser.until("document.querySelector('[data-find]')");
    browser.eval("offshootReport.idle()");
    let found = text(&mut browser, "[data-find]");
    assert!(found.contains("needle of the second"), "{found}");
    browser.press("Escape");
    // The cache: the same figures that `cache` has.
    visit(&mut browser, "view=cache");
    let told = env.run(&["cache", "rec", "--format", "json"]);
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    let parts = |usage: &Value| {
        let n = |name: &str| usage[name].as_u64().unwrap();
        (n("read"), n("write_5m") + n("write_1h"), n("input"))
    };
    let shown = text(&mut browser, "tr.total");
    let grouped = |n: u64| if n < 1_000 { n.to_string() } else { format!("{},{:03}", n / 1_000, n % 1_000) };
    let (read, written, _) = parts(&told["totals"]["predicted"]);
    assert!(
        read > 0 && shown.contains(&grouped(read)) && shown.contains(&grouped(written)),
        "{shown}: {told}"
    );
    assert_eq!(count(&mut browser, ".request-row"), told["requests"].as_array().unwrap().len() as u64);
    is_in_order(&mut browser, "a recording");
}

#[test]
fn hostile_text_is_shown_and_does_nothing() {
    let env = TestEnv::new();
    recorded(&env, "rec");
    let page = report(&env, &["rec"], "page.html");
    let mut browser = Browser::open(&page, 1280, 800);
    let says = format!("turn={}:2", waited_for(&mut browser));
    for hash in [&says, "turn=main:2", "turn=main:2&show=raw", "search=evil", "view=timeline", "lane=sub-1"] {
        visit(&mut browser, hash);
        assert_ne!(browser.eval("document.title"), "taken", "{hash}");
        assert_eq!(count(&mut browser, "img, iframe, object, main script, #app script"), 0, "{hash}");
        let odd = browser.eval("/[\\u0000-\\u0008\\u000b-\\u001f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069]/.test(document.body.innerText)");
        assert_eq!(odd, false, "{hash}");
    }
    visit(&mut browser, &says);
    let shown = text(&mut browser, "main");
    assert!(shown.contains("<img src=x onerror=") && shown.contains("\\u{202e}evil"), "{shown}");
    is_in_order(&mut browser, "hostile text");
}

#[test]
fn every_view_fits_a_wide_and_a_narrow_window_by_day_and_by_night() {
    let env = TestEnv::new();
    recorded(&env, "rec");
    recorded(&env, "again");
    let page = report(&env, &["again", "--golden", "rec"], "page.html");
    let mut browser = Browser::open(&page, 1280, 800);
    let mut grounds = Vec::new();
    for (width, scheme) in [(1280, "light"), (1280, "dark"), (400, "light"), (400, "dark")] {
        browser.resize(width, 800);
        browser.scheme(scheme);
        for hash in [
            "view=timeline",
            "view=lanes",
            "view=cache",
            "view=verdict",
            "turn=main:2",
            "turn=main:2&compare=golden",
            "search=errand",
        ] {
            visit(&mut browser, hash);
            is_in_order(&mut browser, &format!("{hash} at {width} in the {scheme}"));
            let seen = browser.screenshot();
            assert!(seen.len() > 4_000, "{hash} at {width} in the {scheme} is empty");
            // To be looked at: OFFSHOOT_SCREENSHOTS=folder
            if let Some(folder) = std::env::var_os("OFFSHOOT_SCREENSHOTS") {
                use base64::Engine as _;
                let name = format!("{}-{width}-{scheme}.png", hash.replace(['=', ':', '&'], "-"));
                let png = base64::engine::general_purpose::STANDARD.decode(seen).unwrap();
                std::fs::write(std::path::Path::new(&folder).join(name), png).unwrap();
            }
        }
        grounds.push(browser.eval("getComputedStyle(document.body).backgroundColor"));
    }
    assert!(grounds[0] == grounds[2] && grounds[1] == grounds[3] && grounds[0] != grounds[1], "{grounds:?}");
}

#[test]
fn a_run_of_ours_is_a_page_with_measured_tools() {
    let env = TestEnv::new();
    recorded(&env, "rec");
    let runs: Value = serde_json::from_str(&env.run(&["ps", "--format", "json"]).stdout).unwrap();
    let main = runs["runs"].as_array().unwrap().iter().find(|run| run["kind"] == "main").unwrap();
    let page = report(&env, &[main["run"].as_str().unwrap()], "page.html");
    let mut browser = Browser::open(&page, 1280, 800);
    let index = browser.eval("offshootReport.report");
    assert_eq!((&index["kind"], &index["badge"]["word"]), (&json!("run"), &json!("completed")));
    let lanes: Vec<String> = index["lanes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| format!("{} {} {} {}", it["kind"], it["depth"], it["background"], it["state"]))
        .collect();
    let sub = |background: bool| format!(r#""sub" 1 {background} "completed""#);
    assert_eq!(lanes[0], r#""main" 0 false "completed""#);
    assert!(lanes.contains(&sub(true)) && lanes.contains(&sub(false)), "{lanes:?}");
    assert!(index["tools"].as_array().unwrap().iter().all(|it| it["exact"] == true), "{}", index["tools"]);
    let kinds =
        |kind: &str| index["arrows"].as_array().unwrap().iter().filter(|it| it["kind"] == kind).count();
    assert_eq!((kinds("spawn"), kinds("wake"), kinds("result")), (2, 1, 1), "{}", index["arrows"]);
    let turn = format!("turn={}:2", main["run"].as_str().unwrap());
    visit(&mut browser, &turn);
    assert!(text(&mut browser, "main").contains("gone.txt"));
    visit(&mut browser, &format!("{turn}&show=raw"));
    open_halves(&mut browser);
    assert!(text(&mut browser, "main").contains("\"messages\""), "the request is there to the byte");
    is_in_order(&mut browser, "a run");
}

#[test]
fn a_verdict_is_a_page_with_or_without_its_recordings() {
    let env = TestEnv::new();
    recorded(&env, "rec");
    recorded(&env, "again");
    // The second one says something else.
    env.write(
        "script.yaml",
        &SCRIPT.replace("HOSTILE", "nothing").replace("First errand\" }", "First errand, quite another\" }"),
    );
    let said = env.run(&["run", "--script", "script.yaml", "--record", "other", "Do both."]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let verdict = env.run(&["verify", "rec", "other", "--format", "json"]);
    assert_eq!(verdict.code, Some(1), "{verdict:?}");
    env.write("verdict.json", &verdict.stdout);
    let page = report(&env, &["verdict.json"], "page.html");
    let printed = env.run(&["verify", "rec", "other", "--format", "html"]);
    assert_eq!((printed.code, printed.stdout == env.read("page.html")), (Some(1), true), "the same page");
    let mut browser = Browser::open(&page, 1280, 800);
    let shown = text(&mut browser, "main");
    assert!(shown.contains("prompt") && shown.contains("E4") && shown.contains("routing"), "{shown}");
    assert!(count(&mut browser, "[data-difference]") > 0);
    let lane = waited_for(&mut browser);
    visit(&mut browser, &format!("turn={lane}:1&compare=golden"));
    assert!(text(&mut browser, "main").contains("quite another"));
    is_in_order(&mut browser, "a verdict");
    // The folders are gone, and the verdict is not.
    std::fs::rename(env.path("rec"), env.path("moved")).unwrap();
    let said = env.run(&["report", "verdict.json", "--out", "alone.html"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains("the page shows only the verdict"), "{said:?}");
    let mut browser = Browser::open(&env.path("alone.html"), 1280, 800);
    assert!(count(&mut browser, "[data-difference]") > 0);
    is_in_order(&mut browser, "a verdict alone");
    // Rows far below, in groups that are not laid out yet, are gone to all the same.
    let mut told: Value = serde_json::from_str(&verdict.stdout).unwrap();
    let mut one = told["differences"][0].clone();
    (one["golden"], one["candidate"]) = (json!("a\n".repeat(30)), json!("b\n".repeat(30)));
    let many = (0..300).map(|n| {
        let mut it = one.clone();
        it["turn"] = json!(1 + n / 100);
        it
    });
    told["differences"] = many.collect();
    env.write("many.json", &told.to_string());
    report(&env, &["many.json"], "many.html");
    let page = env.path("many.html").canonicalize().unwrap();
    for n in [12, 150, 290] {
        browser.go("about:blank");
        browser.go(&format!("file://{}#difference={n}", page.display()));
        browser.eval("offshootReport.idle()");
        let seen = browser.eval(&format!(
            "(() => {{ const box = document.querySelector(\"[data-difference='{n}'] > summary\").getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight; }})()"
        ));
        assert_eq!(seen, json!(true), "difference {n} is in sight");
    }
}

/// Four turns, or five: the second one has one more in the middle.
fn looked(env: &TestEnv, rec: &str, more: bool) {
    let read = |path: &str| {
        format!("      - reply: [ {{ call: {{ tool: read, id: '{path}', input: {{ path: {path} }} }} }} ]\n")
    };
    let paths = if more { vec!["a.txt", "extra.txt", "b.txt"] } else { vec!["a.txt", "b.txt"] };
    let turns: String = paths.into_iter().map(read).collect();
    let script = format!(
        "format: 1\nlanes:\n  - lane: main\n    match: {{ any: true }}\n    turns:\n{turns}      - reply: [ {{ text: Done. }} ]\n"
    );
    env.write("looks.yaml", &script);
    let said = env.run(&["run", "--script", "looks.yaml", "--record", rec, "Look."]);
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn a_report_pairs_turns_as_verify_does() {
    let env = TestEnv::new();
    looked(&env, "rec", false);
    looked(&env, "more", true);
    let verdict = env.run(&["verify", "rec", "more", "--format", "json"]);
    let verdict: Value = serde_json::from_str(&verdict.stdout).unwrap();
    let turns = &verdict["lanes"][0]["turns"];
    assert_eq!(turns, &json!([[1, 1], [2, 2], [null, 3], [3, 4]]), "one more in the middle");
    let page = report(&env, &["more", "--golden", "rec"], "page.html");
    let mut browser = Browser::open(&page, 1280, 800);
    let index = browser.eval("offshootReport.report");
    assert_eq!(
        index["golden"]["of"],
        json!({"0": 0, "1": 1, "3": 2}),
        "the one that is alone has no counterpart"
    );
    visit(&mut browser, "turn=main:3&compare=golden");
    assert_eq!(count(&mut browser, "[data-section='golden']"), 0);
    visit(&mut browser, "turn=main:4&compare=golden");
    assert_eq!(count(&mut browser, "[data-section='golden']"), 1);
    is_in_order(&mut browser, "turns that moved");
}

#[test]
fn the_page_of_a_killed_run_shows_open_requests() {
    let env = TestEnv::new();
    let script = "format: 1\nlanes:\n  - lane: nobody\n    match: { prompt_contains: nobody asks this }\n    turns: [ { reply: [ { text: never } ] } ]\n  - lane: main\n    match: { any: true }\n    turns:\n      - reply: [ { call: { tool: read, input: { path: a.txt } } } ]\n      - wait_for: [ { lane: nobody, finished: true } ]\n        reply: [ { text: never } ]\n";
    env.write("waits.yaml", script);
    let mut child = env.offshoot(&["run", "--script", "waits.yaml", "Look."]).spawn().unwrap();
    let asked = |env: &TestEnv| -> Option<String> {
        let runs: Value = serde_json::from_str(&env.run(&["ps", "--format", "json"]).stdout).ok()?;
        let run = runs["runs"][0]["run"].as_str()?.to_owned();
        let shown: Value = serde_json::from_str(&env.run(&["show", &run, "--format", "json"]).stdout).ok()?;
        (shown["model_calls"].as_array()?.len() == 2).then_some(run)
    };
    let begun = std::time::Instant::now();
    let run = loop {
        assert!(begun.elapsed() < PATIENCE, "its second question never came");
        if let Some(run) = asked(&env) {
            break run;
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    let page = report(&env, &[&run], "page.html");
    let mut browser = Browser::open(&page, 1280, 800);
    let index = browser.eval("offshootReport.report");
    assert_eq!(index["badge"]["word"], "interrupted");
    let ends: Vec<bool> =
        index["exchanges"].as_array().unwrap().iter().map(|it| it["end"].is_null()).collect();
    assert_eq!(ends, [false, true], "the second is on its way");
    visit(&mut browser, "view=timeline");
    let wide = browser
        .eval("[...document.querySelectorAll('.request.open rect')].map(it => it.getAttribute('width') > 4)");
    assert_eq!(wide, json!([true]), "it goes on to the edge");
    assert!(text(&mut browser, ".says").contains("1 without an end"));
    assert!(text(&mut browser, "tr[data-lane]").contains("1 open of"));
    for hash in
        ["view=timeline", "view=lanes", &format!("turn={run}:2"), &format!("lane={run}"), "view=cache"]
    {
        visit(&mut browser, hash);
        is_in_order(&mut browser, hash);
    }
    visit(&mut browser, &format!("turn={run}:2&show=raw"));
    assert!(text(&mut browser, "main").contains("turn 2"));
    is_in_order(&mut browser, "a run that was killed");
}

#[test]
fn nothing_that_is_read_is_written_over() {
    let env = TestEnv::new();
    looked(&env, "rec", false);
    looked(&env, "gold", false);
    let verdict = env.run(&["verify", "gold", "rec", "--format", "json"]).stdout;
    env.write("verdict.json", &verdict);
    for arguments in [
        &["rec", "--golden", "gold", "--out", "gold/x.html"][..],
        &["rec", "--out", "rec/x.html"],
        &["verdict.json", "--out", "gold/x.html"],
        &["verdict.json", "--out", "rec/x.html"],
        &["verdict.json", "--out", "verdict.json"],
    ] {
        let said = env.run(&[&["report"], arguments].concat());
        assert_eq!(said.code, Some(2), "{arguments:?}: {said:?}");
        assert!(said.stderr.contains("\nhint: "), "{said:?}");
    }
    assert_eq!(env.read("verdict.json"), verdict);
    assert!(!env.path("gold/x.html").exists() && !env.path("rec/x.html").exists());
    // A link stays a link, and the page is for its owner.
    std::os::unix::fs::symlink("real.html", env.path("link.html")).unwrap();
    env.write("real.html", "");
    report(&env, &["rec"], "link.html");
    assert!(env.path("link.html").is_symlink() && env.read("real.html").starts_with("<!doctype html>"));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &std::fs::metadata(env.path("real.html")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o077, 0);
}

#[test]
fn other_inputs_than_recordings_runs_and_verdicts_are_refused() {
    let env = TestEnv::new();
    env.write("some.json", "{\"format\": 1}");
    env.write("newer.json", "{\"format\": 99, \"surfaces\": [], \"outcome\": {\"is\": \"match\"}}");
    for (arguments, error) in [
        (&["nothing"][..], "no folder `nothing`; no run "),
        (&["no/folder"], "no/folder"),
        (&["some.json"], "`some.json` is not a verdict"),
        (&["newer.json"], "`newer.json` is a verdict of format 99"),
        (&["some.json", "--golden", "rec"], "`some.json` is not a recording and cannot be compared"),
    ] {
        let said = env.run(&[&["report"], arguments].concat());
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains(error) && said.stderr.contains("\nhint: "), "{said:?}");
    }
    assert!(!env.path("offshoot-report.html").exists());
}

#[test]
fn a_page_of_a_thousand_exchanges_and_a_hundred_megabytes_is_read_as_it_is_looked_at() {
    let env = TestEnv::in_memory();
    big::write(&env.path("big.html"), 1_000, 100_000);
    assert!(std::fs::metadata(env.path("big.html")).unwrap().len() > 100_000_000);
    let mut browser = Browser::open(&env.path("big.html"), 1280, 800);
    let parsed = browser.eval("document.querySelectorAll('#app *').length").as_u64().unwrap();
    assert!(parsed < 20_000, "{parsed} elements");
    visit(&mut browser, "view=lanes");
    visit(&mut browser, "turn=main:999");
    assert!(text(&mut browser, "main").contains("reply 999"));
    visit(&mut browser, "turn=main:1000&show=raw");
    open_halves(&mut browser);
    let length =
        browser.eval("Math.max(...[...document.querySelectorAll('pre')].map(it => it.textContent.length))");
    assert!(length.as_u64().unwrap() <= 400_000, "{length}: a long text is shown in part");
    visit(&mut browser, "search=needle-in-the-last");
    browser.until("document.querySelector('[data-find]')");
    is_in_order(&mut browser, "a large page");
}

/// A page that is larger than any recording we could make in a test.
mod big {
    use std::fs::File;
    use std::io::BufWriter;
    use std::path::Path;

    use recording::lanes::{Lane, LaneKind, Lanes, Turn};
    use recording::source::{
        Content, ExchangeSummary, OrderedExchanges, Origin, SenderIds, SourceRequest, SourceResponse,
    };
    use report::{BadgeTone, Measurements, Page, PageContent, PageExchange, PageKind};
    use session::RequestId;
    use wire::dialect::Dialect;

    const DIALECT: Dialect = Dialect::AnthropicMessages;

    pub(crate) fn write(path: &Path, exchanges: usize, bytes: usize) {
        let id = |n: usize| RequestId::nth(n as u64 + 1);
        let turn = |n: usize| Turn {
            turn: n as u32 + 1,
            seq: n as u32 + 1,
            attempts: vec![id(n)],
            text: Some(format!("reply {}", n + 1)),
            whole: true,
            ..Turn::default()
        };
        let lane = Lane {
            id: "main".into(),
            kind: LaneKind::Main,
            parent: None,
            spawned_by: None,
            agent_type: None,
            session: None,
            agent: None,
            turns: (0..exchanges).map(turn).collect(),
        };
        let summary = |n: usize| ExchangeSummary {
            id: id(n),
            method: "POST".into(),
            url: "http://localhost/v1/messages".into(),
            dialect: Some(DIALECT),
            model: None,
            status: Some(200),
            ending: None,
            started_us: Some(n as u64 * 1_000),
            took_us: Some(900),
            error: None,
        };
        let ordered = OrderedExchanges {
            lanes: Lanes { lanes: vec![lane] },
            exchanges: (0..exchanges).map(summary).collect(),
            problems: vec![],
        };
        let page = PageContent {
            kind: PageKind::Recording,
            title: "large",
            badge: (BadgeTone::Good, "sealed"),
            facts: vec![],
            began: None,
            ordered: &ordered,
            jobs: &[],
            measured: &Measurements::default(),
            cache: None,
            verdict: None,
            golden: None,
        };
        let mut page = Page::begin(BufWriter::new(File::create(path).unwrap()), &page).unwrap();
        let content = |text: String| Content { bytes: Some(text.into()), sha256: None, origin: Origin::Raw };
        for n in 0..exchanges {
            let needle = if n + 1 == exchanges { "needle-in-the-last" } else { "" };
            // Every one has its own, so that nothing can be taken from the one before.
            let own = format!("{n:08} ").repeat(bytes / 9);
            let asked = SourceRequest {
                id: id(n),
                timestamp: None,
                method: "POST".into(),
                url: "http://localhost/v1/messages".into(),
                headers: vec![],
                sender: SenderIds::default(),
                body: content(format!(
                    "{{\"model\":\"m\",\"messages\":[{{\"role\":\"user\",\"content\":\"{own}{needle}\"}}]}}"
                )),
            };
            let answered = SourceResponse {
                timestamp: None,
                status: Some(200),
                headers: vec![],
                ending: None,
                error: None,
                first_byte_us: None,
                end_us: None,
                body: content(format!(
                    "{{\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[{{\"type\":\"text\",\"text\":\"reply {}\"}}],\"stop_reason\":\"end_turn\",\"usage\":{{\"input_tokens\":1,\"output_tokens\":1}}}}",
                    n + 1
                )),
            };
            let crossed = PageExchange { dialect: Some(DIALECT), asked: &asked, answered: Some(&answered) };
            page.exchange(crossed, None).unwrap();
        }
        page.end().unwrap();
    }
}
