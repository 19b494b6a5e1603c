//! Reads the destination from the first bytes of a connection.

/// The destination that a connection names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Destination {
    /// An HTTP request, to a proxy or a server.
    Http {
        /// The requested host.
        host: String,
        /// The port, if named.
        port: Option<u16>,
    },
    /// A TLS handshake with a server name.
    Tls {
        /// The server name.
        host: String,
    },
    /// No destination is named.
    Unnamed,
}

/// Parses the first bytes of a connection; `None` if more are needed.
pub(super) fn read(bytes: &[u8]) -> Option<Destination> {
    match bytes {
        [] => None,
        [22, ..] => tls(bytes),
        _ => http(bytes),
    }
}

fn http(bytes: &[u8]) -> Option<Destination> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (first.next().unwrap_or_default(), first.next().unwrap_or_default());
    let mut by_header = || {
        lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("host").then(|| value.trim().to_owned())
        })
    };
    let absolute = target.split_once("://").map(|(scheme, rest)| {
        let usual = if scheme == "https" { 443 } else { 80 };
        (rest.split(['/', '?']).next().unwrap_or_default().to_owned(), Some(usual))
    });
    let (authority, usual) = match absolute {
        _ if method == "CONNECT" => (target.to_owned(), None),
        Some(absolute) => absolute,
        None => (by_header().unwrap_or_default(), None),
    };
    // Credentials before `@` are secret.
    let authority = authority.rsplit('@').next().unwrap_or_default();
    if authority.is_empty() {
        return Some(Destination::Unnamed);
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host, port.parse().ok())
        }
        _ => (authority, usual),
    };
    Some(Destination::Http { host: host.trim_matches(['[', ']']).to_lowercase(), port })
}

/// Finds the server name in a ClientHello.
fn tls(bytes: &[u8]) -> Option<Destination> {
    let length = u16::from_be_bytes([*bytes.get(3)?, *bytes.get(4)?]) as usize;
    let record = bytes.get(5..5 + length)?;
    Some(server_name(record).map_or(Destination::Unnamed, |host| Destination::Tls { host }))
}

fn server_name(record: &[u8]) -> Option<String> {
    let mut rest = Bytes(record);
    rest.skip(4 + 2 + 32)?; // handshake header, version, random
    rest.prefixed(1)?; // session id
    rest.prefixed(2)?; // cipher suites
    rest.prefixed(1)?; // compression methods
    let mut extensions = Bytes(rest.prefixed(2)?);
    loop {
        let kind = extensions.number(2)?;
        let body = extensions.prefixed(2)?;
        if kind == 0 {
            let mut names = Bytes(Bytes(body).prefixed(2)?);
            names.skip(1)?; // the type of the name; only one exists
            return Some(String::from_utf8_lossy(names.prefixed(2)?).to_lowercase());
        }
    }
}

/// A reader of big-endian numbers and bytes.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn skip(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self, length: usize) -> Option<usize> {
        Some(self.skip(length)?.iter().fold(0, |sum, byte| sum << 8 | *byte as usize))
    }

    /// Reads bytes with a length prefix of `length` bytes.
    fn prefixed(&mut self, length: usize) -> Option<&'b [u8]> {
        let size = self.number(length)?;
        self.skip(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(first: &str, expected: Option<(&str, Option<u16>)>) {
        let said = read(first.as_bytes()).expect("whole");
        let expected = expected
            .map_or(Destination::Unnamed, |(host, port)| Destination::Http { host: host.to_owned(), port });
        assert_eq!(said, expected, "{first}");
    }

    #[test]
    fn requests_name_their_host() {
        check("CONNECT api.example:443 HTTP/1.1\r\nHost: other\r\n\r\n", Some(("api.example", Some(443))));
        check("CONNECT [::1]:8443 HTTP/1.1\r\n\r\n", Some(("::1", Some(8443))));
        check("GET http://a.example/x?y HTTP/1.1\r\n\r\n", Some(("a.example", Some(80))));
        check("GET http://u:secret@a.example:81/ HTTP/1.1\r\n\r\n", Some(("a.example", Some(81))));
        check("GET / HTTP/1.1\r\nhost:  B.example\r\n\r\n", Some(("b.example", None)));
        check("nonsense\r\n\r\n", None);
        assert_eq!(read(b"GET / HTTP/1.1\r\n"), None, "there may be more");
    }

    /// Builds a ClientHello with these extensions.
    fn client_hello(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![1, 0, 0, 0, 3, 3];
        body.extend([7; 32]);
        body.push(0);
        body.extend([0, 2, 0x13, 1]);
        body.extend([1, 0]);
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        let mut record = vec![22, 3, 1];
        record.extend((body.len() as u16).to_be_bytes());
        record.extend(body);
        record
    }

    #[test]
    fn tls_names_its_server() {
        let mut extensions = vec![0, 43, 0, 1, 0];
        extensions.extend([0, 0, 0, 14, 0, 12, 0, 0, 9]);
        extensions.extend(b"a.example");
        let hello = client_hello(&extensions);
        assert_eq!(read(&hello), Some(Destination::Tls { host: "a.example".into() }));
        for end in 0..hello.len() {
            assert_eq!(read(&hello[..end]), None, "there may be more after {end}");
        }
        assert_eq!(read(&client_hello(&[0, 43, 0, 1, 0])), Some(Destination::Unnamed));
    }
}
