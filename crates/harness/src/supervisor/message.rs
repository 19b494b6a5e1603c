//! Messages on the supervisor's socket, with file descriptors.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Maximum size of a message. An argument has at most 128 KiB on Linux, so one with a long prompt fits.
const MAX_MESSAGE: usize = 192 << 10;
/// Maximum number of file descriptors in one message.
const MAX_FILES: usize = 16;

/// A command to the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SupervisorCommand {
    /// Keep the attached file open while any process runs: it holds a lock.
    Hold,
    /// ProgramStart a program in its own process group.
    Launch(ProgramStart),
    /// Connect to a port on the program's loopback and return the connection.
    Connect { port: u16 },
    /// End a program's process group: SIGTERM first, SIGKILL after `grace_ms`.
    End { id: u32, grace_ms: u64 },
    /// End all processes and exit.
    Finish { grace_ms: u64 },
}

/// A program to start.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProgramStart {
    pub(crate) id: u32,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// The complete environment.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
    /// The file for its output; by default the supervisor's own output.
    pub(crate) stdout: Option<PathBuf>,
    pub(crate) stderr: Option<PathBuf>,
}

/// An event from the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SupervisorEvent {
    /// It is running. If sealed, the sockets in `sockets` are attached.
    Ready {
        sockets: Vec<Socket>,
    },
    /// The system does not allow sealing.
    CannotSeal {
        why: String,
    },
    Started {
        id: u32,
    },
    NotStarted {
        id: u32,
        why: String,
    },
    Exited {
        id: u32,
        code: i32,
    },
    /// The connection is attached unless it was refused.
    Connected {
        refused: Option<String>,
    },
}

/// The purpose of a socket in a sealed network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Socket {
    /// The recording proxy.
    Proxy,
    /// The proxy that refuses requests to other hosts.
    Refuser,
    /// Direct connections to other hosts on this port.
    Elsewhere { port: u16 },
    /// Name lookups.
    Names,
}

/// Sends a message with file descriptors.
pub(crate) fn send<T: Serialize>(
    socket: BorrowedFd<'_>,
    message: &T,
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let text = serde_json::to_vec(message).expect("messages have only string keys");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    sendmsg(socket, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for the next message; `None` when the other end is closed.
pub(crate) fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut text = vec![0; MAX_MESSAGE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(&mut text)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            got => break got?,
        }
    };
    let files = control.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect(),
        _ => Vec::new(),
    });
    let files = files.collect();
    if got.bytes == 0 {
        return Ok(None);
    }
    Ok(Some((serde_json::from_slice(&text[..got.bytes]).map_err(io::Error::other)?, files)))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::fd::AsFd as _;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn a_message_brings_its_files() {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .expect("a pair of sockets");
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        send(ours.as_fd(), &SupervisorCommand::Hold, &[writer.as_fd()]).expect("sent");
        drop(writer);
        let (order, mut files) =
            receive::<SupervisorCommand>(theirs.as_fd()).expect("received").expect("a message");
        assert!(matches!(order, SupervisorCommand::Hold), "{order:?}");
        let mut writer = std::fs::File::from(files.pop().expect("the file"));
        writer.write_all(b"through").expect("written");
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text, "through");
        drop(ours);
        assert!(receive::<SupervisorCommand>(theirs.as_fd()).expect("an end").is_none());
    }
}
