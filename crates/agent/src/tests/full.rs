//! A disk that is full, at every write of a run.

use super::*;

const STORY: &str = r#"
    < I look. + echo{"say":"one"} + put{"n":1}
    < count{} | in=2000
    < all of it in short
    < ! 529
    < done
"#;

fn room() -> Room {
    let mut room = Room::new();
    room.limits.compact_at = 1000;
    room
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_is_reported_and_nothing_is_lost() {
    let undisturbed = room();
    undisturbed.play(&format!("> work\n{STORY}")).await;
    for writes in 1.. {
        let room = undisturbed.again();
        room.store.room_for(writes);
        let told = room.play(&format!("> work\n{STORY}")).await;
        if told.ends_with("= completed: done\n") {
            assert!(writes > 15, "{writes} writes are not all of them");
            return;
        }
        assert!(told.contains("! the disk is full, nothing was written to the journal"), "{writes}: {told}");
        room.store.room_for(u32::MAX);
        let reads = room.store.run(&room.run());
        // What was said and not written down is said again.
        let answered = reads.model_calls().expect("calls").into_iter();
        let answered = answered.filter(|call| call.status == store::ModelCallStatus::Answered).count();
        let failed_before = room.attempts().iter().any(|attempts| attempts.contains("overloaded"));
        let mut answers: Vec<&str> = STORY.trim().lines().map(str::trim).collect();
        if failed_before || answered == 4 {
            answers.remove(3);
        }
        room.model.forgets(reads.tool_calls().expect("calls").len());
        let told = room.play(&format!(">>\n{}", answers[answered.min(answers.len())..].join("\n"))).await;
        assert!(told.ends_with("= completed: done\n"), "{writes}: {told}");
        let unsure = room.transcript().contains("MAY_HAVE_RUN");
        assert!(unsure || room.transcript() == undisturbed.transcript(), "{writes}: {}", room.transcript());
        let counted = room.state.count.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(counted, 1, "{writes}: what must not happen twice");
    }
}
