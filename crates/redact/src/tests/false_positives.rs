//! A thousand texts without secrets, of the kinds that contain random text. Nearly all must stay unchanged.

use super::*;

const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyz";

const WORDS: &[&str] = &[
    "the",
    "key",
    "token",
    "of",
    "a",
    "password",
    "session",
    "is",
    "in",
    "this",
    "secret",
    "function",
    "returns",
    "and",
    "user",
    "authorization",
    "request",
    "code",
    "cookie",
    "that",
    "default",
    "login",
    "with",
    "for",
    "cache",
    "value",
    "table",
    "column",
    "client",
    "server",
    "account",
    "access",
    "model",
    "discord",
    "curl",
    "machine",
];

fn words(count: usize, seed: u64) -> String {
    let pick = |n: usize| WORDS[(seed as usize * 7 + n * n * 13 + n * 31) % WORDS.len()];
    (0..count).map(pick).collect::<Vec<_>>().join(" ")
}

type Kind = (&'static str, fn(u64) -> String);

/// Each kind with the text for a seed.
const KINDS: &[Kind] = &[
    ("package-lock", |n| {
        format!(
            "\"node_modules/{name}\": {{\n  \"version\": \"1.{n}.0\",\n  \"resolved\": \"https://registry.example.org/{name}/-/{name}-1.{n}.0.tgz\",\n  \"integrity\": \"sha512-{}==\",\n  \"license\": \"MIT\"\n}}",
            random(BASE64, 86, n),
            name = random(LETTERS, 9, n)
        )
    }),
    ("Cargo.lock", |n| {
        format!(
            "[[package]]\nname = \"{}\"\nversion = \"0.{n}.1\"\nsource = \"registry+https://index.example.org/crates\"\nchecksum = \"{}\"\n",
            random(LETTERS, 8, n),
            random(HEX, 64, n)
        )
    }),
    ("go.sum", |n| {
        format!(
            "github.com/{}/{} v1.{n}.0 h1:{}=\n",
            random(LETTERS, 6, n),
            random(LETTERS, 7, n + 1),
            random(BASE64, 43, n)
        )
    }),
    ("yarn.lock", |n| {
        format!(
            "{}@^1.{n}.0:\n  version \"1.{n}.2\"\n  resolved \"https://registry.yarnpkg.com/x/-/x-1.{n}.2.tgz#{}\"\n  integrity sha1-{}=\n",
            random(LETTERS, 7, n),
            random(HEX, 40, n),
            random(BASE64, 27, n)
        )
    }),
    ("poetry.lock", |n| {
        format!("files = [\n    {{file = \"x-{n}.whl\", hash = \"sha256:{}\"}},\n]\n", random(HEX, 64, n))
    }),
    ("git log", |n| {
        format!(
            "commit {}\nAuthor: me <me@a.example>\nDate:   Mon Jan {} 12:34:56 2024 +0000\n\n    {}\n",
            random(HEX, 40, n),
            n % 28 + 1,
            words(9, n)
        )
    }),
    ("digests", |n| {
        format!(
            "{}  file{n}.tar.gz\nsha256:{}\nmd5 {}\n",
            random(HEX, 64, n),
            random(HEX, 64, n + 1),
            random(HEX, 32, n + 2)
        )
    }),
    ("minified code", |n| {
        format!(
            "!function(e,t){{var n=e[\"{}\"];t.{}=function(r){{return n(r.key,r.token||e.s)}},e.exports=t}}(this,{{{}:{n}}});",
            random(ALNUM, 6, n),
            random(ALNUM, 3, n + 1),
            random(LETTERS, 2, n)
        )
    }),
    ("source map", |n| {
        format!(
            "{{\"version\":3,\"sources\":[\"a{n}.ts\"],\"names\":[\"token\",\"password\",\"key\"],\"mappings\":\"{}\"}}",
            random("ACEGIKMQSUY,;gBkCD", 200, n)
        )
    }),
    ("image", |n| {
        format!(
            "{{\"type\":\"image\",\"source\":{{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":\"iVBORw0KGgo{}=\"}}}}",
            random(BASE64, 2000, n)
        )
    }),
    ("wrapped base64", |n| {
        random(BASE64, 760, n)
            .as_bytes()
            .chunks(76)
            .map(|line| String::from_utf8_lossy(line).into_owned() + "\n")
            .collect()
    }),
    ("prose", |n| {
        format!("{}. {}: {}, {}.\n", words(12, n), words(3, n + 1), words(8, n + 2), words(5, n + 3))
    }),
    ("ids", |n| {
        format!(
            "toolu_01{} msg_01{} req_{} {}-{}-4{}-a{}-{}",
            random(ALNUM, 22, n),
            random(ALNUM, 22, n + 1),
            random(HEX, 24, n),
            random(HEX, 8, n),
            random(HEX, 4, n),
            random(HEX, 3, n),
            random(HEX, 3, n),
            random(HEX, 12, n)
        )
    }),
    ("table of words", |n| {
        format!(
            "| {} | token | note |\n|---|---|---|\n| {n} | {} | {} |\n",
            words(1, n),
            words(1, n + 4),
            words(2, n)
        )
    }),
    ("comma separated", |n| format!("id,name,{}\n{n},{},{}\n", words(1, n), random(LETTERS, 5, n), n * 37)),
    ("settings", |n| {
        format!(
            "cache_key = \"{}\"\nmax_tokens = {n}\netag = \"{}\"\npublic_key = \"{}\"\n",
            random(HEX, 16, n),
            random(HEX, 32, n),
            random(BASE64, 44, n)
        )
    }),
    ("stack trace", |n| {
        format!(
            "Error: invalid token\n    at Parser.next (/app/node_modules/x/lib/parser{n}.js:{n}:17)\n    at auth (/app/src/auth.ts:{}:5)\n",
            n + 3
        )
    }),
    ("commands", |n| {
        format!(
            "$ cargo test -p wire --test t{n} && mkdir -p a/b{n} && cp -a x y{n} && curl -sS https://a.example/{n}?page={n}\n"
        )
    }),
    ("assembly", |n| format!("movq ${n}, %rax\ncall _ZN{n}core3fmt{}E\n", random(ALNUM, 17, n))),
    ("urls", |n| {
        format!(
            "https://cdn.example/assets/{}.{}.js?v={} https://a.example/{}/{n}#{}\n",
            random(LETTERS, 6, n),
            random(HEX, 8, n),
            n,
            random(ALNUM, 11, n),
            random(LETTERS, 5, n)
        )
    }),
];

#[test]
fn texts_without_secrets_stay() {
    let mut changed = Vec::new();
    let mut count = 0;
    for (kind, text) in KINDS {
        for seed in 0..50 {
            let text = text(seed * 17 + 3);
            count += 1;
            let out = redactor().redact_text("f", text.as_bytes()).bytes.into_owned();
            if out != text.as_bytes() {
                changed.push(format!("{kind}: {}", String::from_utf8_lossy(&out)));
            }
        }
    }
    assert_eq!(count, 1000);
    assert!(
        changed.len() * 56 <= 2 * count,
        "{} of {count} are changed:\n{}",
        changed.len(),
        changed.join("\n")
    );
}
