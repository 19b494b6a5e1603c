//! Passwords in unstructured text: in command lines, in `.netrc`, and as words with a few digits.

use super::*;

/// The part between `«` and `»` is redacted: alone, in JSON, in nested JSON, and in events.
pub(super) fn check(marked: &str) {
    let text = marked.replace(['«', '»'], "");
    let nested = |text: &str| format!("{{\"result\": \"{}\"}}", inner(text));
    let event = |piece: &str| format!("data: {{\"delta\":{{\"text\":\"{}\"}}}}\n\n", inner(piece));
    let cut = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
    let bodies = [
        (text.clone(), marked.to_owned()),
        (nested(&text), nested(marked)),
        (nested(&nested(&text)), nested(&nested(marked))),
        (event(&text) + &event(" and"), event(marked) + &event(" and")),
    ];
    for (body, marked) in bodies {
        let mut redactor = redactor();
        let out = redactor.redact_text("f", body.as_bytes()).bytes.into_owned();
        assert_eq!(short(&out), shortened(&marked), "{body}");
        assert_valid("logins", body.as_bytes(), &out);
        assert_eq!(redactor.find_residues("f", &out), [], "{}", String::from_utf8_lossy(&out));
    }
    // Split in two, so that no expectation contains the whole.
    let mut redactor = redactor();
    let stream = event(&text[..cut]) + &event(&text[cut..]);
    let out = redactor.redact_text("f", stream.as_bytes()).bytes.into_owned();
    assert!(placeholder::find(&out).is_some(), "{stream}");
}

fn short(out: &[u8]) -> String {
    let mut text = String::from_utf8_lossy(out).into_owned();
    while let Some(at) = text.find("offshoot-redacted-") {
        text.replace_range(at..at + 34, "‹›");
    }
    text
}

fn shortened(marked: &str) -> String {
    let mut text = marked.to_owned();
    while let (Some(from), Some(to)) = (text.find('«'), text.find('»')) {
        text.replace_range(from..to + '»'.len_utf8(), "‹›");
    }
    text
}

#[test]
fn curl_with_a_login() {
    for marked in [
        "curl -u me:«hunter22» https://a.example/x",
        "$ curl -s -u 'me:«horse battery»' https://a.example",
        "curl --user \"me@a.example:«pa:ss»\" -X POST https://a.example | jq .",
        "curl --user=me:«hunter22» https://a.example",
        "/usr/bin/curl -sSu me:«Winter24» https://a.example",
        "curl -ume:«hunter22» https://a.example",
        "curl https://a.example/a?b=1&c=2 \\\n  -H 'Accept: */*' \\\n  -u me:«hunter22» \\\n  -d @x",
        "curl -x p.example --proxy-user me:«hunter22» -U you:«hunter33» https://a.example",
        "[\"curl\", \"-u\", \"me:«hunter22»\", \"https://a.example\"]",
        "curl -u «a1b2c3d4e5f6a7b8c9»: https://a.example/v1/charges",
        "curl -u $USER:«hunter22» https://a.example",
    ] {
        check(marked);
    }
}

#[test]
fn netrc() {
    for marked in [
        "machine a.example login me password «hunter22»",
        "machine a.example\n  login me\n  password «hunter22»\nmachine b.example\n\tlogin you\n\tpassword «blueberry»\n",
        "machine a.example\r\nlogin me\r\naccount x\r\npassword «hunter22»\r\n",
        "machine localhost password «swordfish» login me",
        "machine h login l password «p4ssphrase»",
        "     1→machine a.example\n     2→  login me\n     3→  password «hunter22»\n",
        "     1\tmachine a.example\n     2\tlogin me\n     3\tpassword «hunter22»\n",
        "00001| machine a.example\n00002| login me\n00003| password «hunter22»\n",
        "$ cat ~/.netrc\nmachine a.example login me password \"«horse battery»\"",
    ] {
        check(marked);
    }
}

#[test]
fn passwords_of_a_word_and_digits() {
    for marked in [
        "passwd=«Winter2024»",
        "password: «correcthorse99»",
        "password: «correcthorse99»\nuser: me\n",
        "PASSWORD=«hunter2hunter2»",
        "DB_PASS=«Winter2024»",
        "export MYSQL_PWD=«Winter2024»; mysql",
        "db.password = «Summer2024!»",
        "password = \"«blueberry42»\"",
        "tool --password «Winter2024» --verbose",
        "<password>«Winter2024»</password>",
        "Server=db;Uid=sa;Pwd=«Winter2024»;Encrypt=yes",
        "the password: «Winter2024». Keep it.",
        "password: «swordfish7»\n",
        "- password: «HappyDays2024»\n",
    ] {
        check(marked);
    }
}
