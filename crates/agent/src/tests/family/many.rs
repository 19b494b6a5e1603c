//! Many at once, in every order.

use std::collections::BTreeMap;

use tokio::sync::watch;

use super::*;

/// Counts who has ended.
struct Ends(watch::Sender<Vec<String>>);

impl EventSink for Ends {
    fn emit(&self, event: &RunEvent) {
        if let (EventKind::Finished { .. }, Some(_)) = (&event.kind, &event.parent) {
            self.0.send_modify(|ended| ended.push(event.run.to_string()));
        }
    }
}

/// Main starts two jobs, waits for a third agent, does something that must happen once, and gets reports of the jobs when
/// they end.
fn context() -> Vec<(String, Vec<String>)> {
    let launch = |name: &str| format!(r#"spawn_sub_agent{{"prompt":"{name}","run_in_background":true}}"#);
    let says = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let main = [
        format!("{} + {}", launch("A"), launch("B")),
        r#"spawn_sub_agent{"prompt":"C"}"#.to_owned(),
        "count{}".to_owned(),
        "I wait.".to_owned(),
        "I wait on.".to_owned(),
        "All are done.".to_owned(),
    ];
    vec![
        ("Do it.".to_owned(), main.to_vec()),
        ("A".to_owned(), says(&["@a1 put{\"n\":1}", "@a2 A is done."])),
        ("B".to_owned(), says(&["@b1 put{\"n\":2}", "@b2 B is done."])),
        ("C".to_owned(), says(&["@c1 put{\"n\":3}", "@c2 C is done."])),
    ]
}

/// The same context under other orders of what is answered first: the results are the same, and each comes once.
#[tokio::test]
async fn every_result_is_delivered_once_in_any_order() {
    let mut orders = BTreeMap::new();
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut stage = Stage::new(&[]);
        stage.play = Arc::new(Play::of(context()));
        let (ends, mut seen) = watch::channel(Vec::new());
        stage.events = Arc::new(Ends(ends));
        let run = stage.start("Do it.").await;
        // Each agent's second gate comes behind its first; what comes first among them is for the seed to say.
        let mut gates = ["a", "a", "b", "b", "c", "c"];
        rng.shuffle(&mut gates);
        let open = async {
            let mut times = BTreeMap::new();
            for gate in gates {
                let n = times.entry(gate).and_modify(|n| *n += 1).or_insert(1);
                stage.play.open(&format!("{gate}{n}"));
                if *n == 2 {
                    let ended = times.values().filter(|n| **n == 2).count();
                    seen.wait_for(|seen| seen.len() >= ended).await.expect("it lives");
                }
            }
        };
        let (ended, ()) = tokio::join!(stage.go(&run), open);
        assert_eq!(ended.status, RunStatus::Completed, "seed {seed}");
        assert_eq!(stage.result("m", 2)["final_text"], "C is done.", "seed {seed}");
        for (job, says) in [("m-2-0", "A is done."), ("m-2-1", "B is done.")] {
            assert_eq!(stage.told_of("m", job), 1, "seed {seed}: {job}");
            assert_eq!(stage.row(job).final_text.as_deref(), Some(says), "seed {seed}");
        }
        assert_eq!(stage.results("m")[3], "1", "seed {seed}: done once");
        assert!(stage.play.asked().values().all(|times| *times == 1), "seed {seed}");
        assert!(stage.store().run(&run).inbox().expect("inbox").is_empty(), "seed {seed}");
        let order = stage.said_to("m").lines().filter(|line| line.contains("<job_ended")).count();
        *orders.entry((order, ended.final_text)).or_insert(0) += 1;
    }
    assert!(orders.len() > 1, "the orders differ in what they lead to: {orders:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_jobs_are_delivered_once_each() {
    const JOBS: usize = 1000;
    let launch = r#"spawn_sub_agent{"prompt":"Work.","run_in_background":true}"#;
    let mut main = vec![[launch; JOBS].join(" + ")];
    main.extend((0..=JOBS).map(|n| format!("I wait {n}.")));
    let mut stage = Stage::new(&[]);
    let work = ("Work.".to_owned(), vec!["Worked.".to_owned()]);
    stage.play = Arc::new(Play::of(vec![("Do it.".to_owned(), main), work]));
    let ended = stage.run("Do it.").await;
    assert_eq!(ended.status, RunStatus::Completed, "{:?}", ended.error);
    let told = stage.said_to("m");
    for n in 0..JOBS {
        let job = format!(r#"<job_ended job_id=\"m-2-{n}\""#);
        assert_eq!(told.matches(&job).count(), 1, "{n}");
    }
    assert!(stage.runs().iter().all(|(_, status)| *status == RunStatus::Completed));
    assert!(stage.play.asked().iter().filter(|((who, _), _)| who == "Do it.").all(|(_, times)| *times == 1));
}

#[tokio::test]
async fn many_results_for_a_busy_parent_are_delivered_in_parts() {
    const JOBS: usize = 10;
    let launch = r#"spawn_sub_agent{"prompt":"Work.","run_in_background":true}"#;
    let mut main = vec![[launch; JOBS].join(" + "), "@ended I wait.".to_owned()];
    main.extend((0..=JOBS).map(|n| format!("I wait {n}.")));
    let work = ("Work.".to_owned(), vec!["word ".repeat(4000)]);
    let mut stage = Stage::new(&[]);
    stage.play = Arc::new(Play::of(vec![("Do it.".to_owned(), main), work]));
    let (ends, mut seen) = watch::channel(Vec::new());
    stage.events = Arc::new(Ends(ends));
    let run = stage.start("Do it.").await;
    let open = async {
        seen.wait_for(|seen| seen.len() == JOBS).await.expect("it lives");
        stage.play.open("ended");
    };
    let (ended, ()) = tokio::join!(stage.go(&run), open);
    assert_eq!(ended.status, RunStatus::Completed, "{:?}", ended.error);
    for n in 0..JOBS {
        assert_eq!(stage.told_of("m", &format!("m-2-{n}")), 1, "{n}");
    }
    let told: Vec<usize> = stage
        .said_to("m")
        .lines()
        .filter(|line| line.contains("<job_ended"))
        .map(|line| line.matches("<job_ended").count())
        .collect();
    // Some may have ended before the first report; each report has up to 64 KiB.
    assert!(told.len() >= 3 && told.iter().all(|jobs| *jobs <= 3), "{told:?}");
}
