//! Two at one journal: side by side on two runs, and never on the same.

use std::process::{Command, Stdio};

use store::{Lease, Millis, StoreError};

use super::*;

#[tokio::test(start_paused = true)]
async fn two_kernels_run_two_runs_side_by_side() {
    let (one, mut other) = (Room::new(), Room::new());
    // The same journal, by a handle of its own, as another process has it.
    other.store = open(&one.folder);
    let story = "> work\n< echo{\"say\":\"x\"}\n< put{\"n\":1}\n< done";
    let work = async |room: &Room| {
        for line in story.lines().filter(|line| line.starts_with('<')) {
            room.model.shall_say(line[1..].trim());
        }
        let kernel = room.kernel();
        let run = kernel.start(room.start_of("work")).await.expect("started");
        *room.run.lock().expect("lock is not poisoned") = Some(run.clone());
        kernel.run(&run, &ResumeOverrides::default(), &StopHandle::new()).await.expect("ended").status
    };
    let ended = tokio::join!(work(&one), work(&other));
    assert_eq!(ended, (RunStatus::Completed, RunStatus::Completed));
    assert_eq!(one.transcript(), other.transcript());
    assert_ne!(one.run(), other.run());
    assert!(one.store.check().expect("checked").problems.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_another_process_writes_is_left_alone() {
    let room = Room::new();
    room.play("> hi\n< ! 401").await;
    let mut process = Command::new("cat").stdin(Stdio::piped()).spawn().expect("`cat` can be started");
    let pid = process.id();
    let lease = Lease { pid, start: process::started(pid).expect("it runs") };
    room.store.take_lease(&room.run(), lease, Millis(0), is_lease_holder_alive).await.expect("theirs");
    for prompt in [None, Some("more")] {
        let refused = room.kernel().resume(&room.run(), prompt).await;
        assert!(matches!(refused, Err(RunError::Store(StoreError::Held { .. }))), "{refused:?}");
    }
    assert_eq!(room.transcript(), "prompt: hi\n");
    drop(process.stdin.take());
    process.wait().expect("it ends with its input");
    let told = room.play(">>\n< hello").await;
    assert_eq!(told, "reply: hello\n= completed: hello\n");
}

#[tokio::test(start_paused = true)]
async fn one_process_runs_a_run_once() {
    let room = Room::new();
    room.model.shall_say("...");
    let kernel = room.kernel();
    let run = kernel.start(room.start_of("hi")).await.expect("started");
    *room.run.lock().expect("lock is not poisoned") = Some(run.clone());
    let (stop_handle, more, none) = (StopHandle::new(), ResumeOverrides::default(), StopHandle::new());
    let second = async {
        while room.model.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        let other = room.kernel();
        let refused = other.run(&run, &ResumeOverrides::default(), &none).await;
        assert!(matches!(refused, Err(RunError::AlreadyRunning(_))), "{refused:?}");
        for prompt in [None, Some("more")] {
            let refused = other.resume(&run, prompt).await;
            assert!(matches!(refused, Err(RunError::AlreadyRunning(_))), "{refused:?}");
        }
        stop_handle.request(StopRequest::Pause);
    };
    let (ended, ()) = tokio::join!(kernel.run(&run, &more, &stop_handle), second);
    assert_eq!(ended.expect("ended").status, RunStatus::Paused);
    assert_eq!(room.play(">>\n< hello").await, "reply: hello\n= completed: hello\n");
}
