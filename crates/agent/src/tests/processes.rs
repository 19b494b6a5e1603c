//! Commands that an earlier process left running.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use store::{Lease, Millis};

use super::*;

#[tokio::test]
async fn a_resumed_run_ends_only_its_own_leftover_processes() {
    let room = Room::new();
    room.play("> hi\n< hello").await;
    let sleep = || Command::new("sleep").arg("600").spawn().expect("sleep is everywhere");
    let (mut left, mut other) = (sleep(), sleep());
    let lease = |pid| Lease { pid, start: crate::process::started(pid).expect("it runs") };
    let later = Lease { start: lease(other.id()).start + 1, ..lease(other.id()) };
    for process in [lease(left.id()), later] {
        room.store.record_process(&room.run(), process, Millis(0)).await.expect("registered");
    }
    room.play("> more\n< of course").await;
    assert_eq!(left.wait().expect("it was ours").signal(), Some(9));
    assert_eq!(other.try_wait().expect("it is ours"), None, "it only has a number that was used before");
    assert_eq!(room.store.run(&room.run()).processes().expect("processes"), []);
    other.kill().expect("it runs");
    other.wait().expect("it was ours");
}

#[tokio::test]
async fn processes_end_with_a_run_that_another_process_ends() {
    let room = Room::new();
    room.play("> hi\n< hello").await;
    let mut left = Command::new("sleep").arg("600").spawn().expect("sleep is everywhere");
    let lease = Lease { pid: left.id(), start: crate::process::started(left.id()).expect("it runs") };
    room.store.record_process(&room.run(), lease, Millis(0)).await.expect("registered");
    end_tree(&room.store, &room.run(), Millis(0)).await.expect("ended");
    assert_eq!(left.wait().expect("it was ours").signal(), Some(9));
    assert_eq!(room.store.run(&room.run()).processes().expect("processes"), []);
}
