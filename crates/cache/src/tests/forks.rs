//! Forks read what their parent wrote.

use super::*;
use crate::{Simulator, TokenModel};

/// Builds a parent with about 200,000 tokens.
fn parent() -> Body {
    let mut body = Body::new().tool("Read", "").tool("Task", MARK).system(&long("be good ", 10_000), MARK);
    for turn in 0..95 {
        body = body.says(user(&long(&format!("question {turn} "), 1_000), ""));
        body = body.says(assistant(&long(&format!("answer {turn} "), 1_000)));
    }
    body.says(user("go on", MARK))
}

/// Builds a fork: the parent's reply, then its own task.
fn fork(n: usize) -> Body {
    let mut body = parent();
    let last = body.messages.len() - 1;
    body.messages[last] = user("go on", MARK); // the parent's marker stays
    body.says(assistant("starting ten of them")).says(user(&format!("you are number {n}"), MARK))
}

#[test]
fn a_fork_reads_nearly_all_of_its_parent() {
    let explained = explain(vec![
        ask(1, 0, &parent()),
        ObservedRequest {
            lane: "fork-1".to_owned(),
            fork_of: Some("main".to_owned()),
            ..ask(2, 10, &fork(1))
        },
    ]);
    let [parent, fork] = [&explained.requests[0], &explained.requests[1]];
    let written = parent.predicted.cache_write_5m;
    assert!(written > 200_000, "{written}");
    assert_eq!(fork.predicted.cache_read, written, "all that the parent wrote");
    assert_eq!(fork.reason, None);
    let share = fork.predicted.cache_read as f64 / written as f64;
    assert!(share >= 0.998, "{share}");
}

#[test]
fn ten_forks_write_the_shared_part_once() {
    let mut simulator = Simulator::new();
    let tokens = TokenModel::default();
    let mut ask = |at: u64, body: &Body| {
        let prompt = body.prompt();
        let simulated = simulator.ask(at * SECOND, &prompt, &tokens.scale(&prompt, None));
        simulator.begin(&simulated);
        simulated.usage
    };
    let shared = ask(0, &parent()).cache_write_5m;
    let (mut written, mut read) = (0, 0);
    for n in 0..10 {
        let usage = ask(10 + 10 * n, &fork(n as usize));
        written += usage.cache_write_5m;
        read += usage.cache_read;
    }
    assert_eq!(read, 10 * shared);
    assert!(written < 10 * 20, "each writes its own tail and nothing else: {written}");
}

/// With one other word in the instructions, a fork shares only the tools.
#[test]
fn a_fork_with_another_word_is_cold_and_named() {
    let mut other = fork(1);
    other.system = vec![text(&long("be bad ", 10_000), MARK)];
    let lane = |ask: ObservedRequest| ObservedRequest {
        lane: "fork-1".to_owned(),
        fork_of: Some("main".to_owned()),
        ..ask
    };
    let explained = explain(vec![ask(1, 0, &parent()), lane(ask(2, 10, &other))]);
    assert_eq!(explained.requests[1].reason, Some(crate::Reason::SystemChanged));
    let findings = crate::lint(&explained, &explained);
    let rules: Vec<_> =
        findings.iter().map(|finding| (finding.rule.name(), finding.pointer.as_str())).collect();
    assert_eq!(rules, [("cold_fork", "/system/0")]);
    let shares = explain(vec![ask(1, 0, &parent()), lane(ask(2, 10, &fork(1)))]);
    assert_eq!(crate::lint(&shares, &shares), []);
}

/// A fork that starts too early or too late has no fault in its prompt.
#[test]
fn the_clock_makes_no_cold_fork() {
    let lane = |ask: ObservedRequest| ObservedRequest {
        lane: "fork-1".to_owned(),
        fork_of: Some("main".to_owned()),
        ..ask
    };
    let slow = ObservedRequest { begun_us: Some(60 * SECOND), ..ask(1, 0, &parent()) };
    let cases =
        [(ask(1, 0, &parent()), 400, crate::Reason::Expired), (slow, 10, crate::Reason::NotYetReadable)];
    for (parent, second, reason) in cases {
        let explained = explain(vec![parent, lane(ask(2, second, &fork(1)))]);
        assert_eq!(explained.requests[1].reason, Some(reason));
        assert!(explained.total.missed > 200_000, "it is missed all the same");
        assert_eq!(crate::lint(&CacheReport::default(), &explained), [], "{reason}");
    }
}

/// A fork may begin at an earlier turn of its parent, and reads what that turn wrote.
#[test]
fn a_fork_of_an_earlier_turn_shares_the_prefix_of_that_turn() {
    let first = parent();
    let mut second = parent();
    let last = second.messages.len() - 1;
    second.messages[last] = user("go on", "");
    let second = second.says(assistant("done")).says(user("and now?", MARK));
    let explained = explain(vec![
        ask(1, 0, &first),
        ask(2, 10, &second),
        ObservedRequest {
            lane: "fork-1".to_owned(),
            fork_of: Some("main".to_owned()),
            ..ask(3, 20, &fork(1))
        },
    ]);
    let fork = &explained.requests[2];
    assert_eq!((fork.reason, fork.after.as_ref()), (None, Some(&explained.requests[0].id)));
}

/// Builds a conversation of the parent with one moving marker.
fn turns(count: usize) -> Body {
    let mut body = Body::new().tool("Task", "").system(&long("be good ", 1_000), MARK);
    for turn in 1..=count {
        body =
            body.says(user(&long(&format!("question {turn} "), 500), if turn == count { MARK } else { "" }));
        if turn < count {
            body = body.says(assistant(&format!("answer {turn}")));
        }
    }
    body
}

/// Builds a fork of that conversation, optionally with a changed early message.
fn fork_of(mut parent: Body, changed: Option<(usize, String)>) -> ObservedRequest {
    let last = parent.messages.len() - 1;
    parent.messages[last] = parent.messages[last].replace(MARK, "");
    if let Some((message, said)) = changed {
        parent.messages[message] = said;
    }
    let body = parent.says(assistant("starting one")).says(user("you are the one", MARK));
    ObservedRequest { lane: "fork-1".to_owned(), fork_of: Some("main".to_owned()), ..ask(9, 60, &body) }
}

/// An early request that is still complete in a fork does not make it the fork point.
#[test]
fn a_fork_is_compared_with_the_request_that_it_continues() {
    let parent = || (1..=6).map(|n| ask(n, u64::from(n) * 5, &turns(n as usize)));
    let unread_repeats = user(&format!("{} ", long("question 2 ", 500)), "");
    let inserted = format!("{},{}", turns(6).messages[2], user("by the way", ""));
    for changed in [unread_repeats, inserted] {
        let explained = explain(parent().chain([fork_of(turns(6), Some((2, changed)))]).collect());
        let fork = &explained.requests[6];
        assert_eq!(fork.after.as_ref(), Some(&explained.requests[5].id));
        assert_eq!(fork.reason, Some(crate::Reason::MessagesChanged));
        assert!(fork.miss.as_ref().is_some_and(|miss| miss.tokens >= 2_000), "{}", render(&explained));
        let findings = crate::lint(&explained, &explained);
        let rules: Vec<_> = findings.iter().map(|finding| finding.rule.name()).collect();
        assert_eq!(rules, ["cold_fork"]);
    }
    let shares = explain(parent().chain([fork_of(turns(6), None)]).collect());
    assert_eq!(shares.requests[6].reason, None);
    let earlier = explain(parent().chain([fork_of(turns(3), None)]).collect());
    assert_eq!(earlier.requests[6].after, Some(earlier.requests[2].id.clone()), "{}", render(&earlier));
    assert_eq!(crate::lint(&earlier, &earlier), []);
}

/// Without a marker, nothing of the parent is read.
#[test]
fn a_fork_without_markers_is_cold() {
    let bare = |mut ask: ObservedRequest| {
        ask.prompt.marks.clear();
        ask
    };
    let parent = || ask(1, 0, &turns(2));
    let explained = explain(vec![parent(), bare(fork_of(turns(2), None))]);
    let fork = &explained.requests[1];
    assert_eq!(fork.reason, Some(crate::Reason::Unmarked));
    assert_eq!(
        fork.miss.as_ref().map(|miss| miss.tokens),
        Some(explained.requests[0].predicted.cache_write_5m)
    );
    let mut other = turns(2);
    other.system = vec![text(&long("be bad ", 1_000), "")];
    let changed = explain(vec![parent(), bare(fork_of(other, None))]);
    for explained in [explained, changed] {
        let findings = crate::lint(&explained, &explained);
        let rules: Vec<_> = findings.iter().map(|finding| finding.rule.name()).collect();
        assert_eq!(rules, ["cold_fork"], "{}", render(&explained));
    }
}
