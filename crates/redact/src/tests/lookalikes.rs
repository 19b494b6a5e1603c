//! Text that only resembles a secret must stay unchanged.

use super::*;

/// Each text is tested alone, in JSON, in nested JSON, and in an event.
fn texts() -> Vec<String> {
    let hex = |length, seed| random(HEX, length, seed);
    let base64 = |length, seed| random(&format!("{ALNUM}+/"), length, seed);
    let mut texts = vec![
        format!("sha256:{}", hex(64, 1)),
        format!("commit {}", hex(40, 2)),
        format!("etag W/\"{}\"", hex(32, 3)),
        format!("{}-{}-4{}-a{}-{}", hex(8, 4), hex(4, 5), hex(3, 6), hex(3, 7), hex(12, 8)),
        format!("toolu_01{}", random(ALNUM, 22, 9)),
        format!("srvtoolu_01{}", random(ALNUM, 22, 10)),
        format!("msg_01{}", random(ALNUM, 22, 11)),
        format!("req_01{}", random(ALNUM, 22, 12)),
        format!("call_{}", random(ALNUM, 24, 13)),
        format!("ses_{}", random(ALNUM, 26, 14)),
        format!("resp_{}", hex(48, 15)),
        format!("fc_{}", hex(48, 16)),
        format!("rs_{}", hex(48, 17)),
        format!("chatcmpl-{}", random(ALNUM, 29, 18)),
        format!("fp_{}", hex(10, 19)),
        format!("gen-17{}", random(ALNUM, 20, 20)),
        format!("data:image/png;base64,iVBORw0KGgo{}=", base64(3000, 21)),
        format!("sha512-{}==", base64(86, 22)),
        format!("integrity: sha512-{}==", base64(86, 23)),
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----", base64(64, 24)),
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----", base64(64, 25)),
        format!("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5{} me@host", base64(40, 26)),
        format!("eyJ{}", base64(60, 27)), // JSON in base64, not a token
        format!("cursor=eyJ{}", random(ALNUM, 40, 28)),
    ];
    let plain = [
        "sk-learn and sk-image are packages; see task-list, disk-usage, risk-assessment-of-the-whole-project2",
        "the task-runner-for-long-lists-of-things-2024 and desk-booking-system-version-12345678901234567890",
        "scikit-learn==1.5.0 sk-learn-contrib-extension-pack-for-python-3",
        "max_tokens: 32000, input_tokens: 12345678, output_tokens=12345678, cache_read_input_tokens: 123456789",
        "{\"max_tokens\": 100000000, \"token_count\": 123456789, \"tokens\": \"abcdefgh12345678\"}",
        "{\"prompt_cache_key\": \"abcdefgh12345678\", \"cache_key\": \"0123456789abcdef\"}",
        "{\"public_key\": \"abcdefgh12345678\", \"key\": \"abcdefgh12345678\", \"sort_key\": \"abcdefgh12345678\"}",
        "{\"token_type\": \"bearer12345678\", \"next_page_token\": \"abcdefgh12345678\", \"secret_name\": \"prod-db-12345678\"}",
        "{\"properties\": {\"token\": {\"type\": \"string\", \"description\": \"The API token\"}, \"password\": {\"type\": \"string\"}}}",
        "{\"required\": [\"token\", \"password\", \"api_key\", \"client_secret\"]}",
        "{\"token\": null, \"password\": \"\", \"secret\": true, \"api_key\": false, \"credentials\": {}}",
        "{\"password\": \"password\", \"token\": \"string\", \"secret\": \"undefined\", \"api_key\": \"required\"}",
        "{\"api_key\": \"${ANTHROPIC_API_KEY}\", \"token\": \"$GITHUB_TOKEN\", \"secret\": \"{{ vault.secret }}\", \"password\": \"<your password>\"}",
        "{\"apiKey\": \"{env:ANTHROPIC_API_KEY}\", \"password\": \"********\", \"token\": \"xxxxxxxx\"}",
        "{\"token\": \"Hello\", \"logprob\": -0.31725305, \"bytes\": [72, 101]}",
        "{\"tokens\": [{\"token\": \" world\", \"logprob\":-1.5}], \"top_logprobs\": [{\"token\":\"planet\",\"logprob\":-2.5}]}",
        "{\"token\":\" JavaScript\",\"tokenId\":1,\"logProbability\":-0.1},{\"logProbability\":-0.2,\"token\":\" TypeScript\"}",
        "{\n  \"token\": \" understanding\",\n  \"logprob\": -0.1,\n  \"bytes\": [\n    32,\n    117\n  ]\n}",
        "{\"token\":\" understanding\",\"bytes\":[32,117,110,100,101,114,115,116,97,110,100,105,110,103],\"logprob\":-0.1,\"top_logprobs\":[{\"token\":\"Authorization\",\"bytes\":[1,2],\"logprob\":-0.1}]}",
        "{\"logprob\":-0.1,\"bytes\":[32,117,110,100,101,114,115,116,97,110,100],\"x\":{\"y\":1},\"token\":\" understanding\"}",
        "{\"token\":{\"type\":\"string\",\"id\":\"tok_1a2B3c4D5e6F7g\",\"description\":\"The token2024 of a user\",\"pattern\":\"^[A-Za-z0-9]{20}$\"}}",
        "{\"credentials\":{\"type\":\"oauth2\",\"expires_at\":\"2024-01-01T00:00:00Z\",\"scope\":\"read:all2024x9y8z7\"}}",
        "const marks = [\"-----BEGIN PRIVATE KEY-----\", \"-----END PRIVATE KEY-----\"]; if (pem.startsWith(marks[0]) && pem.endsWith(marks[1])) {}",
        "-----END PRIVATE KEY----- is how it ends, and before that\n-----END PRIVATE KEY-----\nwas said",
        "ANTHROPIC_API_KEY=$KEY GITHUB_TOKEN=${{ secrets.GITHUB_TOKEN }} API_KEY=<key> TOKEN=$(cat file)",
        "The token is used as a Bearer token; pass it in the Authorization header: required for all calls.",
        "Bearer authentication-is-required here; basic knowledge of the subject; Basic authentication",
        "Authorization: Bearer <token>, Authorization: Bearer $TOKEN, Authorization: required",
        "password: string, token: Option<String>, secret: &'static str, api_key: crate::types::Key2",
        "let token = self.next_token(); let api_key = settings.api_key2; password = getpass.getpass()",
        "token: crate::__u32, passphrase: CFTypeRef, const SO_COOKIE: c_int = 57; cookie: c_int = 0x1024",
        "api_key = os.environ[\"API_KEY\"]; const apiKey = process.env.OPENAI_API_KEY",
        "fn token(&self) -> Token { Token::new(self.kind, self.span12345678) }",
        "https://git@github.com/owner/repo.git ssh://git@host:22/path https://registry.example.org/@scope/pkg",
        "https://example.com:8443/path?page=2&sort=asc&key=name#section-12345678",
        "https://a.example/x?sig=none&signature=required&Signature=${SIGNATURE}&X-Amz-Signature=... and &sig=<sig>",
        "X-Hub-Signature=sha1=0123456789abcdef0123456789abcdef; signature=0123456789abcdef0123; design=0123456789abcdef01",
        "http://user:password@localhost/ and http://user:${PASS}@localhost/",
        "Set the cookie policy: strict. Cookie: yes. The cookies are: chocolate, oatmeal.",
        "GOOGLE_APPLICATION_CREDENTIALS=/home/me/.config/gcloud/credentials.json",
        "PWD=/srv/garden OLDPWD=/srv/shared-12345678 SSH_AUTH_SOCK=/tmp/ssh-abc123/agent.42",
        "auth: none, auth = True, pass: 12, pass=yes, auth=oauth2",
        "AKIA is a prefix; AKIAIOSFODNN7 is too short; XAKIAABCDEFGHIJKLMNOP is inside a word",
        "hf_hub_download(repo_id), npm_config_registry, npm_package_name, gsk_ is short, xai-org/grok-1",
        "pypi-publish-action-for-github-workflows-and-releases, dapi_client, dapiserver2",
        "SG.js and SKU 12345, SK-II, SKeleton0123456789, msg.SG.x",
        "the secret: it is in the sauce; a token: a small thing; passwords: plural; credentials: see below",
        "-----BEGIN PRIVATE KEY----- is how it starts and -----END PRIVATE KEY----- is how it ends",
        "usage: login --token TOKEN --password PASSWORD --api-key string   the key to use",
        "curl -H 'x-api-key: YOUR_API_KEY' -H \"Authorization: Bearer $ANTHROPIC_AUTH_TOKEN\" https://api.example.com",
        "{\"authorization_url\": \"https://a.example/x12345678\", \"token_url\": \"https://a.example/y12345678\", \"credential_id\": \"12345678abcd\"}",
        "{\"tool\": \"cookie\", \"fortune_cookie\": \"ok\", \"cookie\": \"chocolate\"}",
        "Access-Control-Allow-Credentials: true-12345678",
        "100% of 50%ab, %d items, %s tokens, 5%",
        "C:\\temp\\new\\token\\file and \\\\server\\share\\pass",
        "the author's authority authored 12345678 authentic auth-flows; bypass, compass, passage",
        "password: the user's password; password: required; token: number; password = input(); api_key: your key",
        "Args:\n    password: The account's password2 field.\n    api_key: your key, at least 20 characters\n",
        "password: varchar255, passwd: string16, password: FixedBytes32, password: NonZeroU64, password: argon2id",
        "password = password2; password == newPassword12; password1=password12; password: userPassword12,",
        "password: version2\npassphrase: example123\npassword: secret123\npassword: placeholder12\n",
        "login --password password123 --user me; password: changeme123; PASSWORD=changeme",
        "password=settings.db_pass12 password: config.password2024 password: db_password_2024 passwd: $PASS2024",
        "password = generate(16), password: hash(\"x12345678\"), password: Vec<u8>, password: [u8; 32], password: Option<Box<str>>",
        "pass: build2024 done, auth: oauth2024, pwd: project2024, PWD=/work/project2024",
        "git push -u origin main:main2024; docker run -u 1000:1000 image; sudo -u postgres psql; ps -u me:x",
        "curl -u user:password https://a.example; curl -u $USER:$PASS x; curl --user \"${USER:-me2024}\" x",
        "curl -u <user>:<password> x\ncurl -u api:YOUR_API_KEY x\ncurl -u me: x\ncurl -u me x\ncurl -u user:your-password x\n",
        "curl https://a.example/x:8080 -o out:file2024\nuser:hunter22 is no option; -u me:hunter22 is, of what?",
        "curl --unix-socket /tmp/a:b2024 -sSL x && docker run -u 1001:10012345 image | grep -u a:b12345678",
        "libcurl -u a:b12345678, curled -u a:b12345678, curl's user:pass12345 syntax",
        "a state machine; the machine you login to password reset; machine learning login password123456",
        "machine a.example login me password $PASSWORD; machine a.example login me; machine b.example password <password>",
        "token: CFAttributedStringRef, secret: XMLHttpRequestEventTarget, api_key = getHTTPResponseCodeFromHeaders()",
        "password = 'passwordConfirmationField'; token: 'JsonWebTokenStrategyOptions'; secret = \"SecretManagerServiceClient\"",
        "token: kCGWindowListOptionOnScreenOnly, credential: NSURLCredentialPersistenceForSession2, key: x",
        "api_key: ApiKeyAuthenticationProvider3; api_key: 'YourApiKeyGoesHereNow'; token = \"MyVerySecretTokenExample\"",
        "secret: SHA256withRSAandPadding, password: 'Passwortbestaetigung', token: 'Zugriffsschluesselverwaltung'",
        "token: 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ', secret = \"AAAAAAAAAAAAaaaaaaaaaaaa\"",
        "token = IOHIDEventServiceClientRef; credential: PKCS12KeyStoreParameterSpec; password: PBEWithMD5AndTripleDES",
        "let token: &str = \"required\"; apiKey: string = \"\"; password: Some(\"password\"), secret: String::from(\"none\")",
        "ENV API_KEY production\nset -x TOKEN $GITHUB_TOKEN\nsetenv PASSWORD \"your password\"\nthe ENV TOKEN is read at startup",
        "password: |\n  the password of the user2024 account\ntoken: >-\n  words and words\n",
        "<password type=\"string\">your password</password> <token/> <ns:Token>required</ns:Token> <secret name=\"x\"/>",
        "{\"value\":\"abcdefgh12345678\",\"name\":\"title\"},{\"name\":\"API_KEY\",\"description\":\"a key2024 of yours\",\"required\":true}",
        "{\"name\":\"API_KEY\",\"in\":\"header\"},{\"name\":\"order\",\"value\":\"abcdefgh12345678\"}",
        "docker://registry:latest/image@sha256 http://host:8080/a@b ssh://git@host:owner/repo@v1 x://a:b/c@d",
        "offshoot-redacted-0123456789abcdef",
        "{\"api_key\": \"offshoot-redacted-0123456789abcdef\", \"n\": 1}",
        "Authorization: Bearer offshoot-redacted-0123456789abcdef",
    ];
    // The example keys of AWS, also built at run time.
    for [id, key] in [
        [["AKIA", "IOSFODNN7", "EXAMPLE"], ["wJalrXUtnFEMI/K7MDENG/", "bPxRfiCY", "EXAMPLEKEY"]],
        [["AKIA", "I44QH8DHB", "EXAMPLE"], ["je7MtGbClwBF/2Zp9Utk/", "h3yCo8nvb", "EXAMPLEKEY"]],
        [["ASIA", "IOSFODNN7", "EXAMPLE"], ["wJalrXUtnFEMI/K7MDENG/", "bPxRfiCY", "EXAMPLEKEY"]],
    ] {
        let (id, key) = (id.concat(), key.concat());
        texts.push(format!("aws_access_key_id = {id}\naws_secret_access_key = {key}\n"));
        texts.push(format!("AWS_ACCESS_KEY_ID={id} AWS_SECRET_ACCESS_KEY={key} aws s3 ls"));
        texts.push(format!("{{\"AccessKeyId\": \"{id}\", \"SecretAccessKey\": \"{key}\"}}"));
    }
    texts.extend(plain.iter().map(|text| (*text).to_owned()));
    texts
}

#[test]
fn look_alikes_stay() {
    let texts = texts();
    assert!(texts.len() >= 60, "{}", texts.len());
    let mut failed = Vec::new();
    for text in texts {
        let nested = format!("{{\"result\": \"{}\"}}", inner(&text));
        let bodies = [
            text.clone(),
            format!("{{\"content\":\"{}\"}}", inner(&text)),
            format!("{{\"content\":\"{}\"}}", inner(&nested)),
            format!(
                "data: {{\"delta\":{{\"text\":\"{}\"}}}}\n\ndata: {{\"delta\":{{\"text\":\" and\"}}}}\n\n",
                inner(&text)
            ),
        ];
        for body in bodies {
            let mut redactor = redactor();
            let out = redactor.redact_text("file", body.as_bytes());
            if *out.bytes != *body.as_bytes() {
                failed.push(format!("{}\n{:?}", String::from_utf8_lossy(&out.bytes), redactor.report()));
            }
            assert_eq!(redactor.find_residues("file", body.as_bytes()), [], "{body}");
        }
    }
    assert!(failed.is_empty(), "{} are changed:\n{}", failed.len(), failed.join("\n"));
}

/// In a field that the provider sealed, a shape is a coincidence, but a learned value is not.
#[test]
fn opaque_fields_are_exempt_from_shapes_only() {
    let shaped = ["sk-", "ant-", "api03-", &random(ALNUM, 80, 1)].concat();
    let fields = [
        format!("{{\"type\":\"thinking\",\"thinking\":\"x\",\"signature\":\"{shaped}\"}}"),
        format!("{{\"type\":\"redacted_thinking\",\"data\":\"{shaped}\"}}"),
        format!("{{\"data\":\"{shaped}\",\"type\":\"redacted_thinking\"}}"),
        format!("{{\"type\":\"reasoning\",\"encrypted_content\":\"{shaped}\"}}"),
        format!("{{\"text\":\"a\",\"thoughtSignature\":\"{shaped}\"}}"),
    ];
    let (first, second) = shaped.split_at(40);
    let delta = |piece: &str| {
        format!(
            "data: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"signature_delta\",\"signature\":\"{piece}\"}}}}\n\n"
        )
    };
    let streamed = delta(first) + &delta(second);
    for field in fields.iter().chain([&streamed]) {
        let mut redactor = redactor();
        assert_eq!(String::from_utf8_lossy(&redactor.redact_text("f", field.as_bytes()).bytes), **field);
        assert_eq!(redactor.find_residues("f", field.as_bytes()), [], "{field}");
        redactor.learn("test", shaped.as_bytes());
        let out = redactor.redact_text("f", field.as_bytes()).bytes.into_owned();
        assert_gone("sealed", &out, &shaped);
        assert_valid("sealed", field.as_bytes(), &out);
    }
}

/// Names of tokens in a theme, a parser or a model stay in all other texts.
#[test]
fn names_of_tokens_are_not_learned() {
    for name in ["comment.block", "StringLiteral", "BertTokenizer", "keyword.control.flow", "identifier"] {
        let mut redactor = redactor();
        redactor.redact_text("theme", format!("{{\"rules\":[{{\"token\":\"{name}\",\"x\":1}}]}}").as_bytes());
        assert_eq!(redactor.generation(), 0, "{name}");
    }
    for token in [random(ALNUM, 12, 3), random(&ALNUM[..52], 20, 5), "my-secret-canary".to_owned()] {
        let mut redactor = redactor();
        redactor.redact_text("theme", format!("{{\"token\":\"{token}\"}}").as_bytes());
        assert_eq!(redactor.generation(), 1, "{token}");
    }
}
