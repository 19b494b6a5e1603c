//! Tests of what makes two requests one conversation, in the notation of `tests`.

use expect_test::expect;

use super::tests::check;

#[test]
fn questions_behind_the_same_examples_are_conversations_of_their_own() {
    let examples = "agent/Read | u:Is 2 even? | a:yes | u:Is 3 even? | a:no";
    check(
        &format!(
            "
            > r1 {examples} | u:Is 4 even?
            < r1 yes
            > r2 {examples} | u:Is 5 even?
            < r2 529
            > r3 {examples} | u:Is 5 even?
            < r3 no
            > r4 {examples} | u:Is 5 even?
            < r4 no
            > r5 {examples} | u:Is 4 even? | a:yes | u:Why?
            < r5 because
            "
        ),
        expect![[r#"
            main, 1:r1, 2:r5
            main-2, 1:r2+r3
            main-3, 1:r4
        "#]],
    );
}

#[test]
fn equal_short_replies_join_no_conversations_with_other_openings() {
    check(
        "
        > r1 agent/Read | u:I am Ann.
        < r1 Hi!
        > r2 agent/Read | u:I am Ben.
        < r2 Hi!
        > r3 agent/Read | u:I am Ann. | a:Hi! | u:one
        < r3 Done.
        > r4 agent/Read | u:I am Ann. | a:Hi! | u:two
        < r4 Done.
        > r5 agent/Read | u:I am Ben. | a:Hi! | u:three
        < r5 Done.
        > r6 agent/Read | u:I am Zoe. | a:Hi! | u:four
        < r6 Done.
        ",
        expect![[r#"
            main, 1:r1, 2:r3, 3:r4 Rewrite
            main-2, 1:r2, 2:r5
            main-3, 1:r6
        "#]],
    );
}

#[test]
fn a_window_over_the_newest_messages_stays_with_its_user() {
    check(
        "
        > r1 agent/Read | u:Ann asks one.
        < r1 Done.
        > r2 agent/Read | u:Ben asks one.
        < r2 Done.
        > r3 agent/Read | u:Ann asks one. | a:Done. | u:Ann asks two.
        < r3 Yes.
        > r4 agent/Read | u:Ben asks one. | a:Done. | u:Ben asks two.
        < r4 Yes.
        > r5 agent/Read | u:Ann asks two. | a:Yes. | u:Ann asks three.
        < r5 No.
        > r6 agent/Read | u:Ben asks two. | a:Yes. | u:Ben asks three.
        < r6 No.
        ",
        expect![[r#"
            main, 1:r1, 2:r3, 3:r5 Rewrite
            main-2, 1:r2, 2:r4, 3:r6 Rewrite
        "#]],
    );
}

#[test]
fn two_models_that_answer_alike_stay_two() {
    check(
        "
        > r1 agent/Read=large | u:Is it so?
        < r1 Yes.
        > r2 agent/Read=small | u:Is it so?
        < r2 Yes.
        > r3 agent/Read=small | u:Is it so? | a:Yes. | u:Why?
        < r3 Because.
        > r4 agent/Read=large | u:Is it so? | a:Yes. | u:Why?
        < r4 Because.
        > r5 agent/Read=small | u:Is it so? | a:Yes. | u:Why? | a:Because. | u:Really?
        < r5 Yes.
        ",
        expect![[r#"
            main, 1:r1, 2:r4
            main-2, 1:r2, 2:r3, 3:r5
        "#]],
    );
}

#[test]
fn call_ids_that_repeat_in_every_conversation_join_none() {
    check(
        "
        > r1 agent/Read | u:job one
        < r1 #call_0()
        > r2 agent/Read | u:job two
        < r2 #call_0()
        > r3 agent/Read | u:job two | a:#call_0 | r:call_0=2
        < r3 done
        > r4 agent/Read | u:job three
        < r4 529
        > r5 agent/Read | u:job one | a:#call_0 | r:call_0=1
        < r5 done
        > r6 agent/Read | u:job three
        < r6 #call_0()
        > r7 agent/Read | u:job three | a:#call_0 | r:call_0=3
        < r7 cut
        > r8 agent/Read | u:job three | a:#call_0 | r:call_0=3
        < r8 done
        ",
        expect![[r#"
            main, 1:r1, 2:r5
            main-2, 1:r2, 2:r3
            main-3, 1:r4+r6, 2:r7+r8
        "#]],
    );
}

#[test]
fn samples_side_by_side_are_conversations() {
    check(
        "
        > r1 agent/Read | u:write a haiku
        > r2 agent/Read | u:write a haiku
        > r3 agent/Read | u:write a haiku
        < r2 cut
        < r1 snow
        > r4 agent/Read | u:write a haiku
        < r3 rain
        < r4 wind
        > r5 agent/Read | u:write a haiku | a:rain | u:longer
        ",
        expect![[r#"
            main, 1:r1
            main-2, 1:r2+r4
            main-3, 1:r3, 2:r5
        "#]],
    );
}

#[test]
fn a_summary_that_is_carried_as_a_reply_continues_its_conversation() {
    // OpenCode asks a summary agent, then opens with its question and the summary as a reply.
    let summary = "We read one file of the tree and found that it was empty.";
    let story = |other: &str| {
        format!(
            "
            > r1 agent/Read | u:do it
            < r1 #toolu_1()
            > r2 agent/Read | u:do it | a:#toolu_1 | r:toolu_1=nothing
            < r2 #toolu_2()
            {other}
            > r3 sum/ | u:do it | a:#toolu_1 | r:toolu_1=nothing | a:#toolu_2 | r:toolu_2=x | u:Summarise it.
            < r3 {summary}
            > r4 agent/Read | u:What did we do so far? | a:{summary} | u:Continue.
            < r4 #toolu_3()
            > r5 agent/Read | u:What did we do so far? | a:{summary} | u:Continue. | a:#toolu_3 | r:toolu_3=y
            < r5 done
            "
        )
    };
    check(
        &story(""),
        expect![[r#"
            main, 1:r1, 2:r2, 3:r4 Compaction, 4:r5
            side-1, 1:r3
        "#]],
    );
    check(
        &story("> o1 agent/Read | u:something else\n< o1 We do that at once."),
        expect![[r#"
            main, 1:r1, 2:r2, 3:r4 Compaction, 4:r5
            main-2, 1:o1
            side-1, 1:r3
        "#]],
    );
}

#[test]
fn two_users_who_are_compacted_keep_their_own_history() {
    check(
        "
        > r1 agent/Read | u:Ann asks for the sea.
        < r1 #toolu_1()
        > r2 agent/Read | u:Ben asks for the hills.
        < r2 #toolu_2()
        > r3 agent/Read | u:Ann asks for the sea. | a:#toolu_1 | r:toolu_1=x | u:sum up
        < r3 The user wanted to hear about the sea and we read the first of the files.
        > r4 agent/Read | u:Ben asks for the hills. | a:#toolu_2 | r:toolu_2=x | u:sum up
        < r4 The user wanted to hear about the hills and we listed every folder of the tree.
        > r5 agent/Read | u:Continued: The user wanted to hear about the hills and we listed every folder of the tree.
        < r5 #toolu_3()
        > r6 agent/Read | u:Continued: The user wanted to hear about the sea and we read the first of the files.
        < r6 #toolu_4()
        > r7 agent/Read | u:Cleo asks for the sky.
        < r7 It is blue.
        ",
        expect![[r#"
            main, 1:r1, 2:r3, 3:r6 Compaction
            main-2, 1:r2, 2:r4, 3:r5 Compaction
            main-3, 1:r7
        "#]],
    );
}

#[test]
fn a_compaction_after_a_failed_summary_keeps_its_lane() {
    check(
        "
        > r1 agent/Read | u:do it
        < r1 #toolu_1()
        > r2 agent/Read | u:do it | a:#toolu_1 | r:toolu_1=x | u:sum up
        < r2 cut
        > r3 agent/Read | u:do it | a:#toolu_1 | r:toolu_1=x | u:sum up
        < r3 <summary> We read the first of the files and it was quite empty. </summary>
        > r4 agent/Read | u:Continued. Summary: We read the first of the files and it was quite empty. | u:go on
        < r4 529
        > r5 agent/Read | u:Continued. Summary: We read the first of the files and it was quite empty. | u:go on
        < r5 done
        ",
        expect![[r#"
            main, 1:r1, 2:r2+r3, 3:r4+r5 Compaction
        "#]],
    );
}
