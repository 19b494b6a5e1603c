//! Calls that rules keep from being made.

use expect_test::expect;

use super::*;

fn room(list: RuleList, rule: &str) -> Room {
    let mut rules = PermissionRules::default();
    rules.add(list, rule).expect("a rule");
    Room { rules: Arc::new(rules), ..Room::new() }
}

/// Says yes to what is called `echo`, and keeps the questions.
#[derive(Default)]
struct Person(Mutex<Vec<String>>);

impl Approver for Person {
    fn ask<'a>(&'a self, question: &'a PermissionQuestion) -> BoxFuture<'a, PermissionAnswer> {
        let PermissionQuestion { agent, tool, input, why, .. } = question;
        self.0.lock().expect("lock is not poisoned").push(format!("{agent} {tool} {input}: {why}"));
        let answer =
            if tool == "echo" { PermissionAnswer::Yes } else { PermissionAnswer::No("not today".to_owned()) };
        Box::pin(std::future::ready(answer))
    }
}

#[tokio::test(start_paused = true)]
async fn denied_calls_get_an_answer_and_the_others_run() {
    let room = room(RuleList::Deny, "count");
    check_in(&room, "> work\n< echo{\"say\":\"x\"} + count{} + put{\"n\":1}\n< done", expect![[r#"
        prompt: work
        reply: a=echo{"say":"x"} + b=count{} + c=put{"n":1}
        results: a gives x + b gives This call was denied and was not made: the rule `count` denies it. Do not try to reach the same result in another way. Continue without it, or stop and say what you need. + c gives put 1
        reply: done
        = completed: done
    "#]]).await;
    assert_eq!(room.calls(), ["a echo: done", "b count: denied", "c put: done"]);
    assert_eq!(room.state.count.load(Ordering::Relaxed), 0, "it was not made");
}

#[tokio::test(start_paused = true)]
async fn a_question_without_a_terminal_is_refused() {
    let room = room(RuleList::Ask, "count");
    let told = room.play("> work\n< count{}\n< done").await;
    assert!(told.contains("the rule `count` asks first, and no terminal to ask on"), "{told}");
    assert_eq!(room.state.count.load(Ordering::Relaxed), 0, "it was not made");
}

#[tokio::test(start_paused = true)]
async fn a_present_user_is_asked() {
    let person = Arc::new(Person::default());
    let room = Room { asker: person.clone(), ..room(RuleList::Ask, "*") };
    let told = room.play("> work\n< echo{\"say\":\"x\"} + count{}\n< done").await;
    assert!(told.contains("a gives x") && told.contains("not today"), "{told}");
    assert_eq!(
        *person.0.lock().expect("lock is not poisoned"),
        ["main echo {\"say\":\"x\"}: the rule `*` asks first", "main count {}: the rule `*` asks first"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_loop_of_refusals_comes_to_an_end() {
    let room = room(RuleList::Deny, "count");
    let again = "< count{}\n".repeat(20);
    let told = room.play(&format!("> work\n{again}")).await;
    let end = "= failed: nothing (8 tool calls were denied, and the agent would only try more)\n";
    assert!(told.ends_with(end), "{told}");
    assert_eq!(room.calls().len(), 8);
    // A new prompt resets the counters.
    room.model.forgets(0);
    let told = room.play("> leave it\n< well then").await;
    assert!(told.ends_with("= completed: well then\n"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_made_in_between_begins_the_count_anew() {
    let room = room(RuleList::Deny, "count");
    let story = "< count{}\n< count{}\n< count{}\n< count{}\n< count{}\n< echo{\"say\":\"x\"}\n".repeat(2);
    let told = room.play(&format!("> work\n{story}< done")).await;
    assert!(told.ends_with("= completed: done\n"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_s_own_rules_make_it_stricter_and_stay_with_its_run() {
    let own_rules = vec![(RuleList::Deny, "count".to_owned()), (RuleList::Allow, "echo".to_owned())];
    let room = Room { own_rules, ..room(RuleList::Ask, "echo") };
    let told = room.play("> work\n< echo{\"say\":\"x\"} + count{}\n< done").await;
    assert!(told.contains("the rule `echo` asks first"), "its own leave counts for nothing: {told}");
    assert!(told.contains("the rule `count` denies it"), "{told}");
    // Another process takes it up, and knows of them from the journal alone.
    let told = Room { own_rules: Vec::new(), ..room }.play("> again\n< count{}\n< done").await;
    assert!(told.contains("the rule `count` denies it"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_harmless_call_beside_each_refused_one_does_not_go_on_for_ever() {
    let mut room = room(RuleList::Deny, "count");
    room.limits.max_steps = 100;
    let story = "< count{} + echo{\"say\":\"x\"}\n".repeat(40);
    let told = room.play(&format!("> work\n{story}")).await;
    assert!(told.ends_with("(24 tool calls were denied, and the agent would only try more)\n"), "{told}");
}
