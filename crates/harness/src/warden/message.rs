//! What the two ends of the warden's socket say, and the open files that go with it.

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

/// The longest message. An argument may have 128 KiB at most on Linux, so one with a long prompt fits.
const MOST: usize = 192 << 10;
/// The most open files in one message.
const MOST_FILES: usize = 16;

/// What the warden is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Keep the file that comes with this open for as long as anything runs: it holds a lock.
    Hold,
    /// Start a program in a process group of its own.
    Launch(Start),
    /// Connect to a port on the program's own loopback, and hand over the connection.
    Connect { port: u16 },
    /// End a program's process group: ask first, and insist after `grace_ms`.
    End { id: u32, grace_ms: u64 },
    /// End everything that was ever started here and go.
    Finish { grace_ms: u64 },
}

/// A program to start.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) id: u32,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// All of its environment.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: PathBuf,
    /// Where its output goes; the warden's own without.
    pub(crate) stdout: Option<PathBuf>,
    pub(crate) stderr: Option<PathBuf>,
}

/// What the warden says.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum News {
    /// It is there. With the sockets that `sockets` describe, where it is sealed.
    Ready {
        sockets: Vec<Socket>,
    },
    /// The system does not allow the seal.
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
    /// With the connection, where there is one.
    Connected {
        refused: Option<String>,
    },
}

/// What one of the sockets in a sealed network is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Socket {
    /// The recording proxy's.
    Proxy,
    /// Whoever asks for a proxy to elsewhere.
    Refuser,
    /// Whoever goes elsewhere directly, on this port.
    Elsewhere { port: u16 },
    /// Whoever asks for a name.
    Names,
}

/// Sends one message and the files that go with it.
pub(crate) fn send<T: Serialize>(
    socket: BorrowedFd<'_>,
    message: &T,
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let text = serde_json::to_vec(message).expect("messages have only string keys");
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    sendmsg(socket, &[IoSlice::new(&text)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for the next message; `None` when the other end is gone.
pub(crate) fn receive<T: DeserializeOwned>(socket: BorrowedFd<'_>) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut text = vec![0; MOST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
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
        send(ours.as_fd(), &Order::Hold, &[writer.as_fd()]).expect("sent");
        drop(writer);
        let (order, mut files) = receive::<Order>(theirs.as_fd()).expect("received").expect("a message");
        assert!(matches!(order, Order::Hold), "{order:?}");
        let mut writer = std::fs::File::from(files.pop().expect("the file"));
        writer.write_all(b"through").expect("written");
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("read");
        assert_eq!(text, "through");
        drop(ours);
        assert!(receive::<Order>(theirs.as_fd()).expect("an end").is_none());
    }
}
