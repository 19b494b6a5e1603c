//! Faults: their effects, the event at which they apply, and the affected attempts.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use wire::dialect::{Dialect, ProviderError};

use super::reply::{LiveReply, ReplyEnd, ReplyPiece};

/// An invalid event, always the same.
const GARBAGE: &[u8] = b"data: {\"type\":\"content_block_delta\",\"index\":0,\"del\x00\xff\xfe}}}\n\n";
/// The first two of the three bytes of a euro sign.
const HALF: &[u8] = b"\xe2\x82";
/// Message of injected errors.
const INJECTED: &str = "injected fault";

/// A fault at an exact place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The recorded lane.
    pub lane: String,
    /// The turn of the lane.
    pub turn: u32,
    /// The requests for that turn that are affected.
    pub attempts: FaultAttempts,
    /// 1-based number of the first affected event. Earlier events are sent as recorded.
    pub event: usize,
    /// The effect.
    pub kind: FaultKind,
    /// The text that it was parsed from.
    text: String,
}

/// Requests for one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultAttempts {
    /// The request with this 1-based number.
    Nth(u32),
    /// All requests.
    All,
}

/// The effect of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An error instead of the reply.
    Status {
        /// The HTTP status.
        code: u16,
        /// Seconds of the `retry-after` header.
        retry_after: Option<u32>,
    },
    /// The connection is closed.
    Cut,
    /// The connection is reset.
    Reset,
    /// Silence for this time; without a time, until the client closes the connection.
    Stall(Option<Duration>),
    /// Each event is delayed by this time.
    Slow(Duration),
    /// An additional invalid event.
    Garbage,
    /// Half of a character inside the event.
    HalfCharacter,
    /// The event is sent twice.
    Duplicate,
    /// An error of this kind in the stream.
    Error(String),
    /// The stream ends as if it were complete.
    End,
    /// A wrong `content-type` header.
    ContentType(String),
}

/// A text is not a valid fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid fault `{text}`: {why}\n{GRAMMAR}")]
pub struct FaultParseError {
    text: String,
    why: String,
}

/// The grammar of a fault.
const GRAMMAR: &str = "\
expected: lane=LANE,turn=N[,attempt=N|all][,event=N]:KIND
KIND: status=CODE[,retry-after=SECONDS], cut, reset, stall[=TIME], slow=TIME, garbage, half, duplicate,
      error=TYPE, end, content-type=TYPE
TIME: 3s or 200ms";

impl Fault {
    /// Returns whether the fault applies to this attempt at a turn.
    pub(super) fn applies_to(&self, lane: &str, turn: u32, attempt: u32) -> bool {
        let is_attempt = match self.attempts {
            FaultAttempts::Nth(nth) => nth == attempt,
            FaultAttempts::All => true,
        };
        self.lane == lane && self.turn == turn && is_attempt
    }

    /// Returns whether the reply has the event at which the fault applies.
    pub(super) fn has_event_in(&self, reply: &LiveReply) -> bool {
        matches!(self.kind, FaultKind::Status { .. } | FaultKind::ContentType(_))
            || self.event <= reply.event_count()
    }

    /// Changes the reply. Returns whether it still carries the complete recorded answer.
    pub(super) fn apply(&self, dialect: Dialect, reply: &mut LiveReply) -> bool {
        match &self.kind {
            FaultKind::Status { code, retry_after } => {
                let error = ProviderError::new(dialect.error_kind(*code), INJECTED);
                *reply = LiveReply::error(*code, dialect.encode_error(&error));
                if let Some(seconds) = retry_after {
                    reply.headers.push(("retry-after".to_owned(), seconds.to_string()));
                }
                return false;
            }
            FaultKind::ContentType(kind) => {
                reply.set_content_type(kind);
                return true;
            }
            // A reply that is no stream is replaced by the error.
            FaultKind::Error(kind) if !reply.is_stream() => {
                let error = ProviderError::new(kind.as_str(), INJECTED);
                *reply = LiveReply::error(500, dialect.encode_error(&error));
                return false;
            }
            _ => {}
        }
        reply.split_by_event();
        let at = (self.event - 1).min(reply.pieces.len());
        match &self.kind {
            FaultKind::Cut => reply.truncate(at, ReplyEnd::Cut),
            FaultKind::Reset => reply.truncate(at, ReplyEnd::Reset),
            FaultKind::Stall(None) => reply.truncate(at, ReplyEnd::Stall),
            FaultKind::End => reply.truncate(at, ReplyEnd::Complete),
            FaultKind::Stall(Some(time)) => reply.delay(at..at + 1, *time),
            FaultKind::Slow(time) => reply.delay(at..usize::MAX, *time),
            FaultKind::Garbage => reply.insert(at, ReplyPiece::new(GARBAGE.to_vec())),
            FaultKind::HalfCharacter => {
                if let Some(piece) = reply.pieces.get_mut(at) {
                    // Before the last quote, which is inside the last string if there is one.
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
                reply.truncate(at, ReplyEnd::Complete);
                let error = ProviderError::new(kind.as_str(), INJECTED);
                reply.pieces.push(ReplyPiece::new(dialect.encode_stream_error(&error)));
            }
            FaultKind::Status { .. } | FaultKind::ContentType(_) => {}
        }
        // A harness may ignore an event that it does not understand.
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
        let invalid = |why: &str| FaultParseError { text: text.to_owned(), why: why.to_owned() };
        let (place, kind) = text.split_once(':').ok_or_else(|| invalid("no `:` between place and kind"))?;
        let (mut lane, mut turn, mut event) = (None, None, 2);
        let mut attempts = FaultAttempts::Nth(1);
        let mut seen = Vec::new();
        for part in place.split(',') {
            let (name, value) =
                part.split_once('=').ok_or_else(|| invalid(&format!("no `=` in `{part}`")))?;
            let name = name.trim();
            if seen.contains(&name) {
                return Err(invalid(&format!("`{name}` is given twice")));
            }
            seen.push(name);
            let number = || match value.parse::<u32>() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(invalid(&format!("`{value}` is not a number from 1"))),
            };
            match name {
                "lane" if !value.is_empty() => lane = Some(value.to_owned()),
                "turn" => turn = Some(number()?),
                "event" => event = number()? as usize,
                "attempt" if value == "all" => attempts = FaultAttempts::All,
                "attempt" => attempts = FaultAttempts::Nth(number()?),
                other => return Err(invalid(&format!("unknown part `{other}`"))),
            }
        }
        let lane = lane.ok_or_else(|| invalid("no lane"))?;
        let turn = turn.ok_or_else(|| invalid("no turn"))?;
        let kind = parse_kind(kind).map_err(|why| invalid(&why))?;
        Ok(Self { lane, turn, attempts, event, kind, text: text.into() })
    }
}

/// Kinds without a value.
const WITHOUT_VALUE: [&str; 6] = ["cut", "reset", "garbage", "half", "duplicate", "end"];

fn parse_kind(text: &str) -> Result<FaultKind, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let required = |example: &str| {
        let value = value.filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("`{name}` needs a value, such as `{example}`"))
    };
    if let (true, Some(value)) = (WITHOUT_VALUE.contains(&name), value) {
        return Err(format!("`{name}` takes no value, but has `{value}`"));
    }
    Ok(match name {
        "status" => {
            let value = required("status=529")?;
            let (code, after) = match value.split_once(",retry-after=") {
                Some((code, after)) => (code, Some(after)),
                None => (value, None),
            };
            let code = code.parse().ok().filter(|code| (400..600).contains(code));
            let code = code.ok_or_else(|| format!("`{value}` is not a status from 400 to 599"))?;
            let retry_after = after
                .map(|after| after.parse().map_err(|_| format!("`{after}` is not a number of seconds")))
                .transpose()?;
            FaultKind::Status { code, retry_after }
        }
        "cut" => FaultKind::Cut,
        "reset" => FaultKind::Reset,
        "stall" => FaultKind::Stall(value.map(parse_duration).transpose()?),
        "slow" => FaultKind::Slow(parse_duration(required("slow=200ms")?)?),
        "garbage" => FaultKind::Garbage,
        "half" => FaultKind::HalfCharacter,
        "duplicate" => FaultKind::Duplicate,
        "error" => FaultKind::Error(required("error=overloaded_error")?.to_owned()),
        "end" => FaultKind::End,
        "content-type" => FaultKind::ContentType(required("content-type=text/html")?.to_owned()),
        other => return Err(format!("unknown kind `{other}`")),
    })
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(ms), _) => ms.parse().ok().map(Duration::from_millis),
        (None, Some(s)) => s.parse().ok().map(Duration::from_secs),
        (None, None) => None,
    };
    parsed.ok_or_else(|| format!("`{text}` is not a time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_has_a_place_and_a_kind() {
        let fault: Fault = "lane=sub-1,turn=2,event=5,attempt=all:stall=3s".parse().expect("valid");
        assert_eq!((fault.lane.as_str(), fault.turn, fault.event), ("sub-1", 2, 5));
        assert_eq!(fault.kind, FaultKind::Stall(Some(Duration::from_secs(3))));
        let applies = |lane, turn| fault.applies_to(lane, turn, 7);
        assert!(applies("sub-1", 2) && !applies("sub-1", 1) && !applies("main", 2));
        let status: Fault = "lane=main,turn=1:status=529,retry-after=2".parse().expect("valid");
        assert_eq!(status.kind, FaultKind::Status { code: 529, retry_after: Some(2) });
        assert!(status.applies_to("main", 1, 1) && !status.applies_to("main", 1, 2));
    }

    #[test]
    fn an_invalid_fault_is_explained_and_the_grammar_is_printed() {
        for (text, why) in [
            ("lane=main,turn=2", "no `:`"),
            ("lane,turn=2:cut", "no `=` in `lane`"),
            ("turn=2:cut", "no lane"),
            ("lane=main:cut", "no turn"),
            ("lane=main,turn=0:cut", "`0` is not a number from 1"),
            ("lane=main,turn=1:explode", "unknown kind `explode`"),
            ("lane=main,turn=1:slow", "needs a value"),
            ("lane=main,turn=1:stall=3", "`3` is not a time"),
            ("lane=main,turn=1:status=200", "not a status from 400"),
            ("lane=main,turn=1,colour=red:cut", "unknown part `colour`"),
            ("lane=main,turn=1:cut=5s", "`cut` takes no value, but has `5s`"),
            ("lane=main,turn=1:garbage=x", "`garbage` takes no value"),
            ("lane=main,turn=1:end=", "`end` takes no value"),
            ("lane=main,turn=1:cut,event=2", "unknown kind `cut,event`"),
            ("lane=main,lane=sub-1,turn=1:cut", "`lane` is given twice"),
            ("lane=main,turn=1, turn=2:cut", "`turn` is given twice"),
            ("lane=main,turn=1:error=", "`error` needs a value"),
        ] {
            let error = text.parse::<Fault>().expect_err(text).to_string();
            assert!(error.contains(why) && error.contains("expected: lane="), "{error}");
        }
    }
}
