//! Secrets as tools, files and programs show them. Each row is a text and the secret in it.

use super::*;

struct Row {
    name: String,
    text: String,
    secret: String,
}

fn row(name: &str, text: impl Fn(&str) -> String) -> Row {
    let seed = name.bytes().fold(7, |seed: u64, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    let secret = random(ALNUM, 24, seed);
    Row { name: name.to_owned(), text: text(&secret), secret }
}

fn json(value: serde_json::Value) -> String {
    value.to_string()
}

/// Returns a private key in the layouts of different tools.
fn keys() -> Vec<Row> {
    let [begin, end] = ["BEGIN", "END"].map(|word| format!("-----{word} RSA {}", "PRIVATE KEY-----"));
    let key = |name: &str, show: &dyn Fn(&str, [&str; 3], &str) -> String| {
        let lines: [String; 3] = std::array::from_fn(|n| random(&format!("{ALNUM}+/"), 64, n as u64 + 90));
        let [a, b, c] = &lines;
        let text = show(&begin, [a, b, &c[..30]], &end);
        [("first", a[8..40].to_owned()), ("second", b[8..40].to_owned()), ("last", c[4..28].to_owned())]
            .into_iter()
            .filter(|(_, line)| text.contains(line.as_str()))
            .map(|(which, secret)| Row { name: format!("{name}, {which} line"), text: text.clone(), secret })
            .collect::<Vec<_>>()
    };
    let lines = |before: &'static str| {
        move |begin: &str, [a, b, c]: [&str; 3], end: &str| {
            let lines: Vec<_> = [begin, a, b, c, end]
                .iter()
                .enumerate()
                .map(|(n, line)| format!("{}{line}", before.replace('N', &(n + 1).to_string())))
                .collect();
            format!("here:\n{}\nand so on", lines.join("\n"))
        }
    };
    let mut rows = Vec::new();
    for before in
        ["     N→", "     N\t", "N: ", "N|", "key.pem:N:", "a/b-c/key.pem-N-", "# ", "> ", "+", "  // ", "\t"]
    {
        rows.extend(key(&format!("behind {before:?}"), &lines(before)));
        let cut = |begin: &str, rest: [&str; 3], end: &str| {
            let text = lines(before)(begin, rest, end);
            text[..text.find(&end[..8]).expect("an end")].trim_end().to_owned()
        };
        rows.extend(key(&format!("without its end, behind {before:?}"), &cut));
        let tail = |begin: &str, rest: [&str; 3], end: &str| {
            let text = lines(before)(begin, rest, end);
            let at = text.find(&begin[..8]).expect("a begin");
            text[at + begin.len()..].to_owned()
        };
        rows.extend(key(&format!("without its beginning, behind {before:?}"), &tail));
    }
    let concat = |begin: &str, [a, b, c]: [&str; 3], end: &str| {
        format!("const key = \"{begin}\\n\" +\n  \"{a}\\n\" +\n  \"{b}\\n\" + \"{c}\\n\" +\n  \"{end}\\n\";")
    };
    let list = |begin: &str, [a, b, c]: [&str; 3], end: &str| {
        serde_json::to_string_pretty(&[begin, a, b, c, end]).expect("JSON")
    };
    rows.extend(key("put together in code", &concat));
    rows.extend(key("a list of strings", &list));
    rows.extend(key("a list in a list", &|begin, rest, end| {
        json(serde_json::json!([list(begin, rest, end)]))
    }));
    rows
}

fn rows() -> Vec<Row> {
    let mut rows = vec![
        row("a numbered name", |s| format!("{{\"password1\":\"{s}\"}}")),
        row("a numbered variable", |s| format!("export GITHUB_TOKEN1={s}\n")),
        row("a numbered parameter", |s| format!("GET /v1?access_token1={s}&x=1")),
        row("nested value", |s| json(serde_json::json!({"token": {"value": s}}))),
        row("nested among others", |s| {
            json(serde_json::json!({"credentials": {"user": "bob", "value": s, "n": 1}}))
        }),
        row("nested deeper", |s| json(serde_json::json!({"credentials": {"a": {"id": "x", "b": s}}}))),
        row("nested, in a string", |s| {
            json(serde_json::json!({"text": json(serde_json::json!({"api_key": {"value": s}, "b": "c"}))}))
        }),
        row("nested in YAML", |s| format!("api_key:\n  value: {s}\n")),
        row("a secret of AWS", |s| json(serde_json::json!({"SecretString": s}))),
        row("for ssh", |s| format!("SSHPASS={s} ssh me@host")),
        row("a bearer behind two spaces", |s| format!("Bearer  {s}")),
        row("a header with two spaces", |s| format!("authorization: Bearer  {s}\n")),
        row("an option's value in quotes", |s| format!("tool --api-key \"{s}\" --verbose")),
        row("a type before it", |s| format!("let api_key: &str = \"{s}\";")),
        row("another type before it", |s| format!("private readonly apiKey: string = '{s}';")),
        row("in a wrapper", |s| format!("api_key: Some(\"{s}\"), secret: String::from(\"{s}\")")),
        row("in three quotes", |s| format!("api_key = \"\"\"{s}\"\"\"")),
        row("in a recipe", |s| format!("ENV API_KEY {s}\nRUN make\n")),
        row("in fish", |s| format!("set -x API_KEY {s}\n")),
        row("in csh", |s| format!("setenv API_KEY \"{s}\"\n")),
        row("a block in YAML", |s| format!("password: |\n  {s}\nuser: me\n")),
        row("a folded block in YAML", |s| format!("password: >-\n    {s}\nuser: me\n")),
        row("a tag in YAML", |s| format!("password: !!str {s}\n")),
        row("an anchor in YAML", |s| format!("password: &pw {s}\n")),
        row("an element with attributes", |s| format!("<Password type=\"x\">{s}</Password>")),
        row("an element in a space", |s| format!("<ns:Password>{s}</ns:Password>")),
        row("an element with CDATA", |s| format!("<password><![CDATA[{s}]]></password>")),
        row("a pair, the value first", |s| format!("{{\"value\":\"{s}\",\"name\":\"API_KEY\"}}")),
        row("a pair with more between", |s| {
            json(serde_json::json!({"a_name": "API_KEY", "b": "the \"key\"", "n": 1, "value": s}))
        }),
        row("a password with a slash", |s| format!("postgres://me:{}/{}@h/db", &s[..12], &s[12..])),
        row("a coloured value", |s| format!("API_KEY=\x1b[33m{s}\x1b[0m\n")),
    ];
    let tail = random(ALNUM, 36, 71);
    let slack = |kind: &str, rest: &str| ["xox", kind, "-", rest].concat();
    for (name, secret) in [
        ("slack's client", slack("c", &format!("123456789012-{}", random(HEX, 24, 72)))),
        ("slack's cookie", slack("d", &format!("{}%2F{}", random(ALNUM, 20, 73), random(ALNUM, 20, 74)))),
    ] {
        rows.push(Row { name: name.into(), text: format!("it is {secret} here"), secret });
    }
    for (name, shaped) in [
        ("anthropic", ["sk", "-ant-", "api03-", &tail].concat()),
        ("github", ["gh", "p_", &tail].concat()),
        ("aws", ["AK", "IA", &random(UPPER, 16, 75)].concat()),
        ("jwt", ["ey", "J", &tail, ".ey", "J", &tail, ".", &tail].concat()),
    ] {
        for colour in ["\x1b[32m", "\x1b[1;31m", "\x1b[K", "\\x1b[32m", "\\033[0;32m", "\\e[1m"] {
            let name = format!("{name} in colour {colour:?}");
            let text = format!("{colour}{shaped}\x1b[0m");
            rows.push(Row { name, text, secret: shaped.clone() });
        }
    }
    rows.extend(keys());
    rows
}

/// Each text alone, in JSON, and in nested JSON: no secret remains, and the last check agrees.
#[test]
fn no_shown_secret_stays() {
    let mut failed = Vec::new();
    for Row { name, text, secret } in rows() {
        let once = json(serde_json::json!({"content": text}));
        let twice = json(serde_json::json!({"content": once}));
        for (depth, body) in [text, once, twice].into_iter().enumerate() {
            let mut redactor = redactor();
            let out = redactor.redact_text("file", body.as_bytes()).bytes.into_owned();
            let left = String::from_utf8_lossy(&out).into_owned();
            if left.contains(&secret) || !left.contains("offshoot-redacted-") {
                failed.push(format!("{name}, {depth} deep: {left}"));
            }
            assert_valid(&name, body.as_bytes(), &out);
            assert_eq!(redactor.find_residues("file", &out), [], "{name}: {left}");
        }
    }
    assert!(failed.is_empty(), "{} stayed:\n{}", failed.len(), failed.join("\n"));
}

/// The text around a key stays.
#[test]
fn only_the_key_is_redacted() {
    for Row { name, text, .. } in keys() {
        let out = redactor().redact_text("file", text.as_bytes()).bytes.into_owned();
        let left = String::from_utf8_lossy(&out).into_owned();
        for around in ["here:\n", "\nand so on", "const key = \""] {
            assert!(!text.contains(around) || left.contains(around), "{name}: {left}");
        }
    }
}

/// A secret number is found only as a complete number, by the redaction and by the last check.
#[test]
fn secret_numbers_match_completely() {
    for (text, clean) in [
        (r#"{"password":"12345678","order":"1234567890"}"#, r#"{"password":"‹›","order":"1234567890"}"#),
        (r#"{"token":"20240101","n":920240101,"m":-20240101}"#, r#"{"token":"‹›","n":920240101,"m":"‹›"}"#),
        (
            r#"{"token":"20240101","n":20240101.5,"m":2.20240101,"e":20240101e3}"#,
            r#"{"token":"‹›","n":20240101.5,"m":2.20240101,"e":20240101e3}"#,
        ),
        ("TOKEN=20240101 on 20240101. Not 202401011200", "TOKEN=‹› on ‹›. Not 202401011200"),
    ] {
        let mut redactor = redactor();
        let out = redactor.redact_text("file", text.as_bytes()).bytes.into_owned();
        assert_eq!(super::rules::short(&out), clean);
        assert_eq!(redactor.find_residues("file", &out), [], "{text}");
    }
    let mut redactor = redactor();
    redactor.learn("test", b"20240101");
    for ahead in ["", "x", "xy"] {
        let text =
            format!("{{\"b\":\"{}\"}}", STANDARD_NO_PAD.encode(format!("{ahead}{{\"pin\":\"20240101\"}}")));
        let out = redactor.redact_text("file", text.as_bytes()).bytes.into_owned();
        assert!(placeholder::find(&out).is_some(), "{text}");
        assert_eq!(redactor.find_residues("file", &out), [], "{text}");
    }
}

/// The `%41` in a secret is decoded together with the encoding around it.
#[test]
fn a_secret_that_reads_as_encoded() {
    let secret = "pa%ss%41word9";
    let mut redactor = redactor();
    redactor.learn("test", secret.as_bytes());
    for text in [
        secret.to_owned(),
        percent(secret, false),
        percent(secret, true),
        percent(&percent(secret, false), false),
    ] {
        let text = format!("a {text} b");
        assert_ne!(redactor.find_residues("file", text.as_bytes()), [], "{text}");
        let out = redactor.redact_text("file", text.as_bytes()).bytes.into_owned();
        assert_eq!(super::rules::short(&out), "a ‹› b", "{text}");
        assert_eq!(redactor.find_residues("file", &out), [], "{text}");
    }
}

/// A common word in a cookie is not a secret elsewhere, but a session id is.
#[test]
fn only_random_parts_of_cookies_are_learned() {
    let mut redactor = redactor();
    let session = random(ALNUM, 12, 80);
    let cookie = format!(
        "lang=javascript; theme=\"solarized\"; tz=America/Los_Angeles; at=us-east-1; sid={session}; Path=/settings"
    );
    redactor.redact_headers("response", &[("Set-Cookie".to_owned(), cookie.into_bytes())]);
    let text = format!("javascript in /settings, America/Los_Angeles, us-east-1, solarized, {session}");
    let out = redactor.redact_text("file", text.as_bytes()).bytes.into_owned();
    assert_eq!(
        super::rules::short(&out),
        "javascript in /settings, America/Los_Angeles, us-east-1, solarized, ‹›"
    );
}

/// Lines with many names, and form parts with many names, are searched once.
#[test]
fn hostile_texts_take_linear_time() {
    for unit in [
        "cookie:a ",
        "cookie: a=b ",
        "authorization: a ",
        "authorization: bearer ",
        "authorization:",
        "name=\"token\"\r\n\r\n",
        "name=\"token\"\r\n\r\n<a>",
        "token=",
        "TOKEN=$(",
        "\"token\":{\"a\":\"",
        "\"token\":{",
        "-----BEGIN PRIVATE KEY-----",
        "-----END PRIVATE KEY-----\n",
        "password,x\n",
        "password,x\npassword,x,y\n",
        "password|",
        "sensitive = true { default = ",
        "mysql -p -b ",
        "echo a | --password-stdin ",
        "discord.aaaaaa.",
        "LS0tLS1CRUdJTiBQUklWQVRFIEtFW",
        "variable \"token\" { default ",
        "[\"--token\",\"",
    ] {
        let time = |length: usize| {
            let text = unit.repeat(length / unit.len());
            let begun = std::time::Instant::now();
            redactor().redact_text("file", text.as_bytes());
            begun.elapsed()
        };
        let (short, long) = (time(50_000), time(400_000));
        // Eight times the length. If each name searched the rest of the text, it would take 64 times as long.
        let quick = long < 24 * short || long < std::time::Duration::from_secs(4);
        assert!(quick, "{unit:?} took {short:?}, and eight times as much took {long:?}");
    }
}
