//! Faults at an exact place: what goes wrong, where, and how often.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use wire::dialect::{Dialect, ProviderError};

use super::response::{End, Piece, Reply};

/// What a broken event looks like: never valid, always the same.
const GARBAGE: &[u8] = b"data: {\"type\":\"content_block_delta\",\"index\":0,\"del\x00\xff\xfe}}}\n\n";
/// The first two of the three bytes of a euro sign.
const HALF: &[u8] = b"\xe2\x82";

/// A fault at an exact place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The recorded lane.
    pub lane: String,
    /// Its turn.
    pub turn: u32,
    /// Which requests for that turn are hit.
    pub attempts: FaultAttempts,
    /// The event it happens at, from 1: those before it go out as recorded.
    pub event: usize,
    /// What happens.
    pub kind: FaultKind,
    /// As it was written.
    text: String,
}

/// Requests for one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAttempts {
    /// This one, from 1.
    Nth(u32),
    /// Every one.
    All,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An error instead of the answer.
    Status {
        /// Its status.
        code: u16,
        /// What `retry-after` says, in seconds.
        retry_after: Option<u32>,
    },
    /// The connection is closed in the middle.
    Cut,
    /// The connection is reset in the middle.
    Reset,
    /// Nothing comes for a while; for ever without a time.
    Stall(Option<Duration>),
    /// Every event takes so much longer.
    Slow(Duration),
    /// An event that is none, before this one.
    Garbage,
    /// The event breaks off inside of a character, and the next goes on behind it.
    HalfCharacter,
    /// The event comes twice.
    Duplicate,
    /// The provider reports an error of this kind in its stream.
    Error(String),
    /// The stream ends as if it were whole.
    End,
    /// The head lies about what follows.
    ContentType(String),
}

/// A fault that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no fault: {why}")]
pub struct FaultParseError {
    text: String,
    why: String,
}

impl Fault {
    /// Whether it happens here.
    pub(super) fn hits(&self, lane: &str, turn: u32, attempt: u32) -> bool {
        let attempts = match self.attempts {
            FaultAttempts::Nth(nth) => nth == attempt,
            FaultAttempts::All => true,
        };
        self.lane == lane && self.turn == turn && attempts
    }

    /// Whether the reply has the event that it happens at.
    pub(super) fn reaches(&self, reply: &Reply) -> bool {
        matches!(self.kind, FaultKind::Status { .. } | FaultKind::ContentType(_))
            || self.event <= reply.events()
    }

    /// What becomes of the reply. Whether the recorded answer still arrives in full.
    pub(super) fn apply(&self, dialect: Dialect, reply: &mut Reply) -> bool {
        match &self.kind {
            FaultKind::Status { code, retry_after } => {
                let error = ProviderError::new(dialect.error_kind(*code), "a fault that was asked for");
                *reply = Reply::error(*code, dialect.encode_error(&error));
                if let Some(seconds) = retry_after {
                    reply.headers.push(("retry-after".to_owned(), seconds.to_string()));
                }
                return false;
            }
            FaultKind::ContentType(kind) => {
                reply.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
                reply.headers.push(("content-type".to_owned(), kind.clone()));
                return true;
            }
            // Outside of a stream an error comes instead of the answer.
            FaultKind::Error(kind) if !reply.is_stream() => {
                let error = ProviderError::new(kind.as_str(), "a fault that was asked for");
                *reply = Reply::error(500, dialect.encode_error(&error));
                return false;
            }
            _ => {}
        }
        reply.by_event();
        let at = (self.event - 1).min(reply.pieces.len());
        match &self.kind {
            FaultKind::Cut => reply.stop(at, End::Cut),
            FaultKind::Reset => reply.stop(at, End::Reset),
            FaultKind::Stall(None) => reply.stop(at, End::Hold),
            FaultKind::End => reply.stop(at, End::Clean),
            FaultKind::Stall(Some(time)) => reply.delay(at..at + 1, *time),
            FaultKind::Slow(time) => reply.delay(at..usize::MAX, *time),
            FaultKind::Garbage => reply.insert(at, Piece::of(GARBAGE.to_vec())),
            FaultKind::HalfCharacter => {
                if let Some(piece) = reply.pieces.get_mut(at) {
                    // Before the last quote: inside of the last string, where there is one.
                    let inside = piece.bytes.iter().rposition(|byte| *byte == b'"');
                    let inside = inside.unwrap_or(piece.bytes.len() / 2);
                    piece.bytes.splice(inside..inside, HALF.iter().copied());
                }
            }
            FaultKind::Duplicate => {
                if let Some(piece) = reply.pieces.get(at).cloned() {
                    reply.insert(at, piece);
                }
            }
            FaultKind::Error(kind) => {
                reply.stop(at, End::Clean);
                let error = ProviderError::new(kind.as_str(), "a fault that was asked for");
                reply.pieces.push(Piece::of(dialect.encode_stream_error(&error)));
            }
            FaultKind::Status { .. } | FaultKind::ContentType(_) => {}
        }
        // A harness may well read over what makes no sense to it.
        matches!(
            self.kind,
            FaultKind::Stall(Some(_))
                | FaultKind::Slow(_)
                | FaultKind::Duplicate
                | FaultKind::Garbage
                | FaultKind::HalfCharacter
        )
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Fault {
    type Err = FaultParseError;

    fn from_str(text: &str) -> Result<Self, FaultParseError> {
        let bad = |why: &str| FaultParseError { text: text.to_owned(), why: why.to_owned() };
        let (place, kind) = text.split_once(':').ok_or_else(|| bad("it says where or what, not both"))?;
        let (mut lane, mut turn, mut event) = (None, None, 2);
        let mut attempts = FaultAttempts::Nth(1);
        let mut said = Vec::new();
        for part in place.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(|| bad("its place has no `=`"))?;
            if said.contains(&name.trim()) {
                return Err(bad(&format!("it says `{}` twice", name.trim())));
            }
            said.push(name.trim());
            let number = || match value.parse::<u32>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(bad(&format!("`{value}` is no number from 1"))),
            };
            match name.trim() {
                "lane" if !value.is_empty() => lane = Some(value.to_owned()),
                "turn" => turn = Some(number()?),
                "event" => event = number()? as usize,
                "attempt" if value == "all" => attempts = FaultAttempts::All,
                "attempt" => attempts = FaultAttempts::Nth(number()?),
                other => {
                    let known = "there are `lane`, `turn`, `attempt` and `event`";
                    return Err(bad(&format!("`{other}` is no part of a place; {known}")));
                }
            }
        }
        let lane = lane.ok_or_else(|| bad("it names no lane"))?;
        let turn = turn.ok_or_else(|| bad("it names no turn"))?;
        Ok(Self {
            lane,
            turn,
            attempts,
            event,
            kind: what(kind).map_err(|why| bad(&why))?,
            text: text.into(),
        })
    }
}

/// Kinds that say everything by their name.
const ALONE: [&str; 6] = ["cut", "reset", "garbage", "half", "duplicate", "end"];

fn what(text: &str) -> Result<FaultKind, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let needed = |example: &str| {
        let value = value.filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("`{name}` needs a value, as in `{example}`"))
    };
    if let (true, Some(value)) = (ALONE.contains(&name), value) {
        return Err(format!("`{name}` takes no value, and `{value}` is given"));
    }
    Ok(match name {
        "status" => {
            let value = needed("status=529")?;
            let (code, after) = match value.split_once(",retry-after=") {
                Some((code, after)) => (code, Some(after)),
                None => (value, None),
            };
            let code = code.parse().ok().filter(|code| (400..600).contains(code));
            let code = code.ok_or_else(|| format!("`{value}` is no status from 400 to 599"))?;
            let retry_after = after
                .map(|after| after.parse().map_err(|_| format!("`{after}` is no number of seconds")))
                .transpose()?;
            FaultKind::Status { code, retry_after }
        }
        "cut" => FaultKind::Cut,
        "reset" => FaultKind::Reset,
        "stall" => FaultKind::Stall(value.map(duration).transpose()?),
        "slow" => FaultKind::Slow(duration(needed("slow=200ms")?)?),
        "garbage" => FaultKind::Garbage,
        "half" => FaultKind::HalfCharacter,
        "duplicate" => FaultKind::Duplicate,
        "error" => FaultKind::Error(needed("error=overloaded_error")?.to_owned()),
        "end" => FaultKind::End,
        "content-type" => FaultKind::ContentType(needed("content-type=text/html")?.to_owned()),
        other => {
            return Err(format!(
                "`{other}` is no kind; there are `status`, `cut`, `reset`, `stall`, `slow`, `garbage`, `half`, \
                 `duplicate`, `error`, `end` and `content-type`"
            ));
        }
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(ms), _) => ms.parse().ok().map(Duration::from_millis),
        (None, Some(s)) => s.parse().ok().map(Duration::from_secs),
        (None, None) => None,
    };
    parsed.ok_or_else(|| format!("`{text}` is no time; write `3s` or `200ms`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_says_where_and_what() {
        let fault: Fault = "lane=sub-1,turn=2,event=5,attempt=all:stall=3s".parse().expect("good");
        assert_eq!((fault.lane.as_str(), fault.turn, fault.event), ("sub-1", 2, 5));
        assert_eq!(fault.kind, FaultKind::Stall(Some(Duration::from_secs(3))));
        assert!(fault.hits("sub-1", 2, 7) && !fault.hits("sub-1", 1, 7) && !fault.hits("main", 2, 1));
        let status: Fault = "lane=main,turn=1:status=529,retry-after=2".parse().expect("good");
        assert_eq!(status.kind, FaultKind::Status { code: 529, retry_after: Some(2) });
        assert!(status.hits("main", 1, 1) && !status.hits("main", 1, 2));
    }

    #[test]
    fn what_is_wrong_with_one_that_is_none() {
        for (text, why) in [
            ("lane=main,turn=2", "not both"),
            ("turn=2:cut", "no lane"),
            ("lane=main:cut", "no turn"),
            ("lane=main,turn=0:cut", "`0` is no number from 1"),
            ("lane=main,turn=1:explode", "`explode` is no kind"),
            ("lane=main,turn=1:slow", "needs a value"),
            ("lane=main,turn=1:stall=3", "`3` is no time"),
            ("lane=main,turn=1:status=200", "no status from 400"),
            ("lane=main,turn=1,colour=red:cut", "`colour` is no part"),
            ("lane=main,turn=1:cut=5s", "`cut` takes no value, and `5s` is given"),
            ("lane=main,turn=1:garbage=x", "`garbage` takes no value"),
            ("lane=main,turn=1:end=", "`end` takes no value"),
            ("lane=main,turn=1:cut,event=2", "`cut,event` is no kind"),
            ("lane=main,lane=sub-1,turn=1:cut", "it says `lane` twice"),
            ("lane=main,turn=1, turn=2:cut", "it says `turn` twice"),
            ("lane=main,turn=1:error=", "`error` needs a value"),
        ] {
            let error = text.parse::<Fault>().expect_err(text).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
