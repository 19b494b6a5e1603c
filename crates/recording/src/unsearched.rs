//! List of everything that could not be searched for secrets.

/// Maximum number of entries.
const MOST: usize = 1000;

/// Merges the entries of exchanges that have the same reason. The same picture is in many requests of a
/// conversation.
pub(crate) fn compact(entries: &[String]) -> Vec<String> {
    let mut merged: Vec<(&str, &str, usize)> = Vec::new();
    for entry in entries {
        let (id, rest) = entry.split_once(' ').filter(|(id, _)| is_exchange(id)).unwrap_or(("", entry));
        match merged.iter_mut().find(|(first, other, _)| first.is_empty() == id.is_empty() && *other == rest)
        {
            Some((_, _, count)) => *count += 1,
            None => merged.push((id, rest, 1)),
        }
    }
    let others = merged.len().saturating_sub(MOST);
    merged.truncate(MOST);
    let describe = |(id, rest, count): (&str, &str, usize)| match (id, count) {
        ("", _) => rest.to_owned(),
        (id, 1) => format!("{id} {rest}"),
        (id, count) => format!("{id} and {} more, {rest}", count - 1),
    };
    let mut lines: Vec<String> = merged.into_iter().map(describe).collect();
    lines.extend((others > 0).then(|| format!("{others} more entries")));
    lines
}

fn is_exchange(id: &str) -> bool {
    id.strip_prefix('r')
        .is_some_and(|digits| digits.len() >= 6 && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_reasons_of_exchanges_are_merged() {
        let entries = [
            "r000001 request body: it contains a PNG image",
            "`workspace/a.png`: it contains a PNG image",
            "r000002 request body: it contains a PNG image",
            "r000003 response body: it contains a PNG image",
            "r000004 request body: it contains a PNG image",
        ];
        let expected = [
            "r000001 and 2 more, request body: it contains a PNG image",
            "`workspace/a.png`: it contains a PNG image",
            "r000003 response body: it contains a PNG image",
        ];
        assert_eq!(compact(&entries.map(str::to_owned)), expected);
        let many: Vec<String> = (0..1500).map(|n| format!("`workspace/{n}`: it contains XZ data")).collect();
        let few = compact(&many);
        assert_eq!((few.len(), few.last().map(String::as_str)), (1001, Some("500 more entries")));
    }
}
