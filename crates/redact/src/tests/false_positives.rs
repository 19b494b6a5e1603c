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

/// Further kinds, with ten texts each: code about passwords, public keys and certificates, and lists of ids.
const MORE_KINDS: &[Kind] = &[
    ("types", |n| {
        format!(
            "interface Login{n} {{\n  password: string;\n  token?: string | null;\n  apiKey: ApiKey{n};\n  secret: () => Promise<string>;\n}}\n"
        )
    }),
    ("rust types", |n| {
        format!(
            "pub struct Login{n} {{\n    pub password: SecretString,\n    token: Option<Token{n}>,\n    pub api_key: &'static str,\n}}\nfn secret(key: Key{n}) -> Token {{ token }}\n"
        )
    }),
    ("getpass", |n| {
        format!(
            "password = getpass()\npassword{n} = getpass.getpass(\"Password {n}: \")\ntoken = get_token({n})\nsecret = os.environ[\"SECRET{n}\"]\napi_key = config.api_key\n"
        )
    }),
    ("tests of passwords", |n| {
        format!(
            "it('rejects a short password', () => {{ expect(validatePassword(input{n})).toBe(false) }})\nassert password_is_valid(password)\nself.assertEqual(user.password, None)\n"
        )
    }),
    ("public key", |n| {
        format!("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{} me@host{n}\n", random(BASE64, 43, n))
    }),
    ("certificate", |n| {
        let lines: String = (0..12).map(|line| random(BASE64, 64, n * 20 + line) + "\n").collect();
        format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n")
    }),
    ("pgp public key", |n| {
        let lines: String = (0..6).map(|line| random(BASE64, 64, n * 20 + line) + "\n").collect();
        format!("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{lines}=abcd\n-----END PGP PUBLIC KEY BLOCK-----\n")
    }),
    ("uuids", |n| {
        (0..8)
            .map(|line| {
                let part = |length, seed| random(HEX, length, n * 40 + line * 5 + seed);
                format!("{}-{}-{}-{}-{}\n", part(8, 0), part(4, 1), part(4, 2), part(4, 3), part(12, 4))
            })
            .collect()
    }),
    ("git log", |n| {
        (0..6).map(|line| format!("{} {}\n", random(HEX, 7, n * 7 + line), words(6, n + line))).collect()
    }),
    ("environment names", |n| {
        format!(
            "required: API_TOKEN, DB_PASSWORD and SECRET_KEY_{n}; see docs/auth{n}.md for the password policy\n"
        )
    }),
    ("help text", |n| {
        format!(
            "  -p, --password <PASSWORD>   Password of the user [env: DB_PASSWORD]\n  -t, --token TOKEN           Token number {n}\n      --api-key KEY           Key (default: none)\n  -k, --key-file FILE\n"
        )
    }),
    ("schema", |n| {
        format!(
            "CREATE TABLE users{n} (id INT PRIMARY KEY, password VARCHAR(255) NOT NULL, token_hash CHAR(64));\nALTER TABLE users{n} ADD COLUMN password_changed_at TIMESTAMP;\nINSERT INTO users{n} (id, name) VALUES ({n}, 'me');\n"
        )
    }),
    ("json schema", |n| {
        format!(
            "{{\"properties\":{{\"password\":{{\"type\":\"string\",\"minLength\":{n}}},\"token\":{{\"$ref\":\"#/definitions/Token{n}\"}},\"pass\":{{\"type\":\"boolean\"}}}}}}"
        )
    }),
    ("test results", |n| {
        format!(
            "{{\"pass\":{n},\"fail\":0,\"pwd\":\"/home/me/project{n}\"}}\npass: module_{n}::case_{n}\nPASS src/auth{n}.test.ts\n"
        )
    }),
    ("dockerfile", |n| {
        format!("ARG VERSION=1.{n}\nENV PATH=/opt/x{n}/bin:$PATH\nRUN --mount=type=secret,id=npm{n} npm ci\n")
    }),
    ("workflow", |n| {
        format!(
            "env:\n  TOKEN: ${{{{ secrets.TOKEN_{n} }}}}\n  PASSWORD: ${{{{ secrets.PASSWORD }}}}\nwith:\n  token: ${{{{ github.token }}}}\n"
        )
    }),
    ("svg", |n| {
        format!(
            "<svg viewBox=\"0 0 {n} 24\"><path d=\"M{n}.5 2.1c1.3-.8 4.7 3.{n} 6.2a12 12 0 0 1-3.4 8z\" key=\"p{n}\"/></svg>"
        )
    }),
    ("commands", |n| {
        format!(
            "mkdir -p build{n} && zip -r x{n}.zip src && ssh -p 2222 host{n} && docker run -p 80{n}:80 x && mongo --port 27017\nnet user\nvercel deploy -t\nhttp GET localhost:80{n}\n"
        )
    }),
    ("kinds", |n| {
        format!("kind: ConfigMap\nmetadata:\n  name: x{n}\ndata:\n  colour: blue{n}\n---\nkind: Deployment\n")
    }),
    ("sentences", |n| {
        format!(
            "The password is required. The token is valid for {n} hours, and the key was renamed to `cache_key_{n}`. Pass `token_limit` to `login(user)`.\n"
        )
    }),
];

#[test]
fn texts_without_secrets_stay() {
    let mut changed = Vec::new();
    let mut count = 0;
    for (kinds, seeds) in [(KINDS, 50), (MORE_KINDS, 10)] {
        for (kind, text) in kinds {
            for seed in 0..seeds {
                let text = text(seed * 17 + 3);
                count += 1;
                let out = redactor().redact_text("f", text.as_bytes()).bytes.into_owned();
                if out != text.as_bytes() {
                    changed.push(format!("{kind}: {}", String::from_utf8_lossy(&out)));
                }
            }
        }
    }
    assert_eq!(count, 1200);
    assert!(changed.len() <= 2, "{} of {count} are changed:\n{}", changed.len(), changed.join("\n"));
}
