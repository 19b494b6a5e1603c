//! Parses the query of a URL.

/// Returns the names and values of a query, decoded where the result is UTF-8.
pub(crate) fn query(url: &str) -> Vec<(String, String)> {
    let url = url.split('#').next().unwrap_or(url);
    let Some((_, query)) = url.split_once('?') else { return Vec::new() };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        })
        .collect()
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let hex = |at: usize| char::from(*behind.get(at)?).to_digit(16);
        rest = behind;
        match (first, hex(0).zip(hex(1))) {
            (b'%', Some((high, low))) => {
                bytes.push((high * 16 + low) as u8);
                rest = &behind[2..];
            }
            (b'+', _) => bytes.push(b' '),
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::query;

    #[test]
    fn decodable_urls_are_decoded() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            query("http://x/y?beta=true&q=a%20b+c&bad=%zz%&latin=%e9&flag&&=#part"),
            [
                pair("beta", "true"),
                pair("q", "a b c"),
                pair("bad", "%zz%"),
                pair("latin", "%e9"),
                pair("flag", ""),
                pair("", ""),
            ]
        );
        assert_eq!(query("http://x/y#a?b=c"), []);
    }
}
