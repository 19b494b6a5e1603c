//! Secrets that are known by their looks.
//!
//! Two tables: [`PREFIXED`] for keys that begin with a fixed text and go on in a fixed alphabet, and
//! [`GRAMMARS`] for what has a grammar of its own. Each row has a trigger, which the one search over
//! a text looks for, and limits that keep look-alikes out.

use std::ops::Range;

use base64::Engine as _;

use super::assign::is_reference;
use super::values::is_word;
use super::{examples, login, looks, pem, placeholder};

/// A secret found by its looks.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Shaped {
    pub(super) rule: &'static str,
    pub(super) range: Range<usize>,
    /// What is secret in it, where that is not the text itself: the inside of Basic credentials.
    pub(super) secret: Option<Vec<u8>>,
}

impl Shaped {
    pub(super) fn new(rule: &'static str, range: Range<usize>) -> Self {
        Self { rule, range, secret: None }
    }
}

/// A key that begins with a fixed text.
struct Prefixed {
    rule: &'static str,
    prefixes: &'static [&'static str],
    /// What the rest is made of.
    alphabet: fn(u8) -> bool,
    /// How long the rest is.
    length: Range<usize>,
    /// What else must hold of the rest.
    also: fn(&[u8]) -> bool,
}

const LONG: usize = 4096;

#[rustfmt::skip]
const PREFIXED: &[Prefixed] = &[
    Prefixed { rule: "shape:anthropic", prefixes: &["sk-ant-"], alphabet: word, length: 16..LONG, also: digits },
    Prefixed { rule: "shape:openrouter", prefixes: &["sk-or-"], alphabet: word, length: 24..LONG, also: digits },
    Prefixed { rule: "shape:openai", prefixes: &["sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"], alphabet: word, length: 20..LONG, also: digits },
    Prefixed { rule: "shape:openai", prefixes: &["sk-"], alphabet: word, length: 20..LONG, also: unbroken },
    Prefixed { rule: "shape:openai", prefixes: &["sess-"], alphabet: alnum, length: 32..LONG, also: digits },
    Prefixed { rule: "shape:google", prefixes: &["AIza"], alphabet: word, length: 32..41, also: digits },
    Prefixed { rule: "shape:google", prefixes: &["ya29.", "GOCSPX-"], alphabet: word, length: 20..LONG, also: any },
    Prefixed { rule: "shape:github", prefixes: &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], alphabet: alnum, length: 30..256, also: any },
    Prefixed { rule: "shape:github", prefixes: &["github_pat_"], alphabet: word, length: 30..256, also: digits },
    Prefixed { rule: "shape:gitlab", prefixes: &["glpat-"], alphabet: word, length: 20..256, also: any },
    Prefixed { rule: "shape:slack", prefixes: &["xoxa-", "xoxb-", "xoxc-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"], alphabet: dashed, length: 16..512, also: digits },
    Prefixed { rule: "shape:slack", prefixes: &["xoxd-"], alphabet: encoded, length: 16..512, also: digits },
    Prefixed { rule: "shape:slack", prefixes: &["hooks.slack.com/services/"], alphabet: slashed, length: 20..128, also: digits },
    Prefixed { rule: "shape:stripe", prefixes: &["sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"], alphabet: alnum, length: 16..256, also: digits },
    Prefixed { rule: "shape:npm", prefixes: &["npm_"], alphabet: alnum, length: 30..64, also: digits },
    Prefixed { rule: "shape:pypi", prefixes: &["pypi-"], alphabet: word, length: 40..LONG, also: unbroken },
    Prefixed { rule: "shape:huggingface", prefixes: &["hf_"], alphabet: alnum, length: 30..64, also: mixed },
    Prefixed { rule: "shape:groq", prefixes: &["gsk_"], alphabet: alnum, length: 32..128, also: digits },
    Prefixed { rule: "shape:xai", prefixes: &["xai-"], alphabet: alnum, length: 32..128, also: digits },
    Prefixed { rule: "shape:databricks", prefixes: &["dapi"], alphabet: hex, length: 32..33, also: digits },
    Prefixed { rule: "shape:digitalocean", prefixes: &["dop_v1_", "doo_v1_", "dor_v1_"], alphabet: hex, length: 32..129, also: digits },
    Prefixed { rule: "shape:twilio", prefixes: &["SK0", "SK1", "SK2", "SK3", "SK4", "SK5", "SK6", "SK7", "SK8", "SK9", "SKa", "SKb", "SKc", "SKd", "SKe", "SKf"], alphabet: hex, length: 31..32, also: digits },
    Prefixed { rule: "shape:perplexity", prefixes: &["pplx-"], alphabet: alnum, length: 32..128, also: digits },
    Prefixed { rule: "shape:nvidia", prefixes: &["nvapi-"], alphabet: word, length: 32..128, also: digits },
    Prefixed { rule: "shape:cerebras", prefixes: &["csk-"], alphabet: alnum, length: 32..128, also: digits },
    Prefixed { rule: "shape:replicate", prefixes: &["r8_"], alphabet: alnum, length: 32..64, also: mixed },
    Prefixed { rule: "shape:linear", prefixes: &["lin_api_"], alphabet: alnum, length: 32..64, also: digits },
    Prefixed { rule: "shape:docker", prefixes: &["dckr_pat_"], alphabet: word, length: 20..64, also: any },
    Prefixed { rule: "shape:shopify", prefixes: &["shpat_", "shpss_"], alphabet: hex, length: 32..33, also: digits },
    Prefixed { rule: "shape:age", prefixes: &["AGE-SECRET-KEY-"], alphabet: alnum, length: 32..128, also: digits },
];

type Grammar = fn(&[u8], usize) -> Vec<Shaped>;

/// What has a grammar of its own: the trigger, whether its case matters, and the grammar.
const GRAMMARS: &[(&str, bool, Grammar)] = &[
    ("AKIA", true, aws),
    ("ASIA", true, aws),
    ("SG.", true, sendgrid),
    ("bearer ", false, bearer),
    ("basic ", false, basic),
    ("://", true, userinfo),
    ("X-Amz-Signature=", false, signature),
    ("X-Goog-Signature=", false, signature),
    ("?Signature=", false, signature),
    ("&Signature=", false, signature),
    (";Signature=", false, signature),
    ("?sig=", false, signature),
    ("&sig=", false, signature),
    (";sig=", false, signature),
    ("-----BEGIN", true, pem::begun),
    ("-----END", true, pem::ended),
    ("eyJ", true, jwt),
    ("curl", true, login::curl),
    ("machine", true, login::netrc),
];

/// One trigger and the row it leads to.
#[derive(Clone, Copy)]
pub(super) struct Trigger {
    text: &'static str,
    row: Row,
}

#[derive(Clone, Copy)]
enum Row {
    Prefixed(&'static Prefixed),
    Grammar { exact: bool, grammar: Grammar },
}

/// Every text that a secret of a known shape may begin with.
pub(super) fn triggers() -> Vec<Trigger> {
    let prefixed = PREFIXED
        .iter()
        .flat_map(|row| row.prefixes.iter().map(move |text| Trigger { text, row: Row::Prefixed(row) }));
    let grammars =
        GRAMMARS.iter().map(|&(text, exact, grammar)| Trigger { text, row: Row::Grammar { exact, grammar } });
    prefixed.chain(grammars).collect()
}

impl Trigger {
    /// What sets this trigger off, in any case.
    pub(super) fn text(&self) -> &'static str {
        self.text
    }

    /// Whether a secret may go on with `byte` behind this trigger's text.
    pub(super) fn goes_on(&self, byte: u8) -> bool {
        match self.row {
            Row::Prefixed(row) => (row.alphabet)(byte),
            Row::Grammar { .. } => byte > b' ',
        }
    }

    /// The secrets that begin at `at`, where this trigger's text stands in some case.
    pub(super) fn look(&self, text: &[u8], at: usize) -> Vec<Shaped> {
        let exact = text[at..].starts_with(self.text.as_bytes());
        let found = match self.row {
            Row::Prefixed(row) if exact => row.look(text, at, self.text).into_iter().collect(),
            Row::Grammar { exact: wanted, grammar } if exact || !wanted => grammar(text, at),
            _ => Vec::new(),
        };
        // A placeholder in it means that the secret has gone already.
        found.into_iter().filter(|shaped| placeholder::find(&text[shaped.range.clone()]).is_none()).collect()
    }
}

impl Prefixed {
    fn look(&self, text: &[u8], at: usize, prefix: &str) -> Option<Shaped> {
        // A short prefix needs a clear border; a long one is no accident even behind a dash.
        let clear = !before(text, at).is_some_and(|byte| alnum(byte) || (prefix.len() < 6 && word(byte)));
        let start = at + prefix.len();
        let rest = clear.then(|| run(text, start, self.alphabet))?;
        let cut_off = text.get(rest.end).is_some_and(|&byte| alnum(byte));
        let fits = self.length.contains(&rest.len()) && !cut_off && (self.also)(&text[rest.clone()]);
        fits.then(|| Shaped::new(self.rule, at..rest.end))
    }
}

/// An access key id, and the secret access key where one stands close behind.
fn aws(text: &[u8], at: usize) -> Vec<Shaped> {
    let id = run(text, at, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    if before(text, at).is_some_and(alnum)
        || id.len() != 20
        || examples::is_aws(&text[id.clone()])
        || text.get(id.end).is_some_and(|&byte| alnum(byte))
    {
        return Vec::new();
    }
    let mut found = vec![Shaped::new("shape:aws", id.clone())];
    let mut from = id.end;
    let near = text.len().min(id.end + 240);
    while from < near {
        let key = run(text, from, |byte| alnum(byte) || matches!(byte, b'/' | b'+'));
        let looks = |check: fn(&u8) -> bool| text[key.clone()].iter().any(check);
        if key.len() == 40
            && looks(u8::is_ascii_uppercase)
            && looks(u8::is_ascii_lowercase)
            && looks(u8::is_ascii_digit)
        {
            found.push(Shaped::new("shape:aws", key.clone()));
        }
        from = key.end + 1;
    }
    found
}

fn sendgrid(text: &[u8], at: usize) -> Vec<Shaped> {
    let first = run(text, at + 3, word);
    if before(text, at).is_some_and(word) || first.len() < 16 || text.get(first.end) != Some(&b'.') {
        return Vec::new();
    }
    let second = run(text, first.end + 1, word);
    if second.len() < 16 { Vec::new() } else { vec![Shaped::new("shape:sendgrid", at..second.end)] }
}

fn bearer(text: &[u8], at: usize) -> Vec<Shaped> {
    let gap = run(text, at + "bearer".len(), |byte| byte == b' ');
    let token = run(text, gap.end, |byte| word(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'='));
    let value = &text[token.clone()];
    let looks = value.len() >= 16 && mixed(value) && !before(text, at).is_some_and(alnum);
    if looks { vec![Shaped::new("shape:bearer", token)] } else { Vec::new() }
}

fn basic(text: &[u8], at: usize) -> Vec<Shaped> {
    let token = run(text, at + "basic ".len(), |byte| word(byte) || matches!(byte, b'+' | b'/' | b'='));
    match decode_basic(&text[token.clone()]) {
        Some(secret) if !before(text, at).is_some_and(alnum) => {
            vec![Shaped { rule: "shape:basic", range: token, secret: Some(secret) }]
        }
        _ => Vec::new(),
    }
}

/// The `user:password` of Basic credentials.
pub(super) fn decode_basic(token: &[u8]) -> Option<Vec<u8>> {
    let end = token.iter().rposition(|&byte| byte != b'=')? + 1;
    let standard: Vec<u8> = token[..end]
        .iter()
        .map(|&byte| match byte {
            b'-' => b'+',
            b'_' => b'/',
            other => other,
        })
        .collect();
    let decoded = base64::engine::general_purpose::STANDARD_NO_PAD.decode(standard).ok()?;
    let colon = memchr::memchr(b':', &decoded)?;
    let printable = std::str::from_utf8(&decoded).is_ok_and(|text| !text.chars().any(char::is_control));
    (decoded.len() >= 6 && colon + 1 < decoded.len() && printable).then_some(decoded)
}

/// The password in a URL, or the token in the user's place.
fn userinfo(text: &[u8], at: usize) -> Vec<Shaped> {
    let start = at + "://".len();
    let authority = run(text, start, |byte| {
        !matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\' | b'|') && byte > b' '
    });
    let authority = start..authority.end.min(start + 4096);
    let at_sign = memchr::memrchr(b'@', &text[authority.clone()]).map(|at| start + at);
    let Some(end) = at_sign.or_else(|| unescaped_password(text, &authority)) else { return Vec::new() };
    let secret = match memchr::memchr(b':', &text[start..end]) {
        Some(colon) => start + colon + 1..end,
        None if end - start >= 16 && mixed(&text[start..end]) => start..end,
        None => return Vec::new(),
    };
    let value = &text[secret.clone()];
    if value.is_empty()
        || is_word(value)
        || is_reference(value)
        || memchr::memchr(b'@', value).is_some_and(|at| at == 0)
    {
        return Vec::new();
    }
    vec![Shaped::new("shape:url-userinfo", secret)]
}

/// What signs an address, and so opens what it leads to: behind the name of its parameter.
fn signature(text: &[u8], at: usize) -> Vec<Shaped> {
    let Some(sign) = memchr::memchr(b'=', &text[at..]) else { return Vec::new() };
    let value = run(text, at + sign + 1, |byte| encoded(byte) || matches!(byte, b'.' | b'~'));
    let looks = value.len() >= 16 && mixed(&text[value.clone()]);
    if looks { vec![Shaped::new("shape:signature", value)] } else { Vec::new() }
}

/// Where the password ends that goes on over a slash, which somebody did not escape.
fn unescaped_password(text: &[u8], authority: &Range<usize>) -> Option<usize> {
    let colon = authority.start + memchr::memchr(b':', &text[authority.clone()])?;
    let rest = run(text, colon + 1, encoded);
    let is_end = text.get(rest.end) == Some(&b'@') && text.get(rest.end + 1).is_some_and(|&byte| alnum(byte));
    (is_end && rest.len() >= 16 && looks::random(&text[rest.clone()])).then_some(rest.end)
}

fn jwt(text: &[u8], at: usize) -> Vec<Shaped> {
    if before(text, at).is_some_and(|byte| word(byte) || byte == b'+') {
        return Vec::new();
    }
    let header = run(text, at, word);
    if header.len() < 10 {
        return Vec::new();
    }
    let mut end = header.end;
    let mut parts = 1;
    while parts < 5 && text.get(end) == Some(&b'.') {
        let part = run(text, end + 1, word);
        if part.len() < 8 {
            break;
        }
        end = part.end;
        parts += 1;
    }
    let claims = text.get(header.end + 1..).is_some_and(|rest| rest.starts_with(b"eyJ"));
    if parts >= 3 || (parts == 2 && claims) { vec![Shaped::new("shape:jwt", at..end)] } else { Vec::new() }
}

/// The byte before `at`, unless it ends a colour: what a terminal does not show is no part of a word.
pub(super) fn before(text: &[u8], at: usize) -> Option<u8> {
    at.checked_sub(1).map(|at| text[at]).filter(|_| !ends_colour(&text[..at]))
}

/// Whether a text ends with a sequence that sets a terminal's colours, as it is or as code writes it.
fn ends_colour(text: &[u8]) -> bool {
    let Some((0x40..=0x7e, rest)) = text.split_last() else { return false };
    let parameters = rest.iter().rev().take(24).take_while(|byte| matches!(byte, 0x30..=0x3f)).count();
    let Some(lead) = rest[..rest.len() - parameters].strip_suffix(b"[") else { return false };
    let is = |escape: &&[u8]| {
        lead.get(lead.len().wrapping_sub(escape.len())..).is_some_and(|end| end.eq_ignore_ascii_case(escape))
    };
    [&b"\x1b"[..], b"\\x1b", b"\\033", b"\\e"].iter().any(is)
}

/// No secret is longer; hostile text that would be looked through again and again is cut short here.
pub(super) const LONGEST: usize = 64 << 10;

/// The longest stretch from `start` on that `of` holds for.
pub(super) fn run(text: &[u8], start: usize, of: impl Fn(u8) -> bool) -> Range<usize> {
    let start = start.min(text.len());
    let near = &text[start..text.len().min(start + LONGEST)];
    start..start + near.iter().position(|&byte| !of(byte)).unwrap_or(near.len())
}

fn alnum(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn dashed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

/// Base64 in a URL or out of one.
fn encoded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'+' | b'/' | b'=' | b'-' | b'_')
}

fn slashed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'/'
}

fn hex(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'a'..=b'f')
}

fn any(_: &[u8]) -> bool {
    true
}

fn digits(rest: &[u8]) -> bool {
    rest.iter().any(u8::is_ascii_digit)
}

/// Letters and digits, as random text has them and words have not.
pub(super) fn mixed(rest: &[u8]) -> bool {
    rest.iter().any(u8::is_ascii_digit) && rest.iter().any(u8::is_ascii_alphabetic)
}

/// Has a long piece of mixed text without a dash: words joined by dashes have not.
fn unbroken(rest: &[u8]) -> bool {
    rest.split(|&byte| !alnum(byte)).any(|piece| piece.len() >= 16 && mixed(piece))
}
