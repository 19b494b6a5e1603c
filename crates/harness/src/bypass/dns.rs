//! A minimal DNS server that reads queries and answers that no name exists.

/// A DNS query.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DnsQuery {
    /// The host whose address is wanted; `None` for other record types.
    pub(super) host: Option<String>,
    /// The answer "no such name".
    pub(super) no_such_name: Vec<u8>,
}

const A: u16 = 1;
const AAAA: u16 = 28;
const HTTPS: u16 = 65;

/// Parses a query; `None` if it is not one.
pub(super) fn read(packet: &[u8]) -> Option<DnsQuery> {
    let is_answer = packet.get(2)? & 0x80 != 0;
    if is_answer || packet.get(4..6)? != [0, 1] {
        return None;
    }
    let mut labels = Vec::new();
    let mut at = 12;
    loop {
        let length = *packet.get(at)? as usize;
        at += 1;
        match length {
            0 => break,
            1..=63 => labels.push(String::from_utf8_lossy(packet.get(at..at + length)?).into_owned()),
            _ => return None, // queries contain no pointers
        }
        at += length;
    }
    let kind = u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?);
    let question = packet.get(12..at + 4)?;
    let mut answer = packet[..2].to_vec();
    // Flags: answer, recursion desired and available, no such name; counts: one question.
    answer.extend([0x80 | (packet[2] & 1), 0x83, 0, 1, 0, 0, 0, 0, 0, 0]);
    answer.extend(question);
    let host = labels.join(".").to_lowercase();
    let wanted = matches!(kind, A | AAAA | HTTPS) && !host.is_empty();
    Some(DnsQuery { host: wanted.then_some(host), no_such_name: answer })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(kind: u8) -> Vec<u8> {
        let mut packet = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        packet.extend(b"\x03API\x07example\x00");
        packet.extend([0, kind, 0, 1]);
        packet
    }

    #[test]
    fn a_question_is_heard_and_answered_with_no() {
        let asked = read(&question(1)).expect("a question");
        assert_eq!(asked.host.as_deref(), Some("api.example"));
        assert_eq!(asked.no_such_name[..12], [0x12, 0x34, 0x81, 0x83, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(asked.no_such_name[12..], question(1)[12..]);
        assert_eq!(read(&question(12)).expect("a reverse question").host, None);
    }

    #[test]
    fn truncated_packets_and_answers_are_ignored() {
        let whole = question(1);
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), None, "cut at {end}");
        }
        let mut answer = whole;
        answer[2] |= 0x80;
        assert_eq!(read(&answer), None);
    }
}
