//! Tokens of providers in the formats that their documentation publishes, one row for each format.

use super::*;

const WORD: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";

/// A row: the provider, the parts of the prefix, the alphabet and the length of the rest. The parts are joined at
/// run time, so that no text in this file has the format of a token.
type Row = (&'static str, &'static [&'static str], &'static str, usize);

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("vault service", &["hv", "s."], WORD, 95),
    ("vault batch", &["hv", "b."], WORD, 138),
    ("vault recovery", &["hv", "r."], WORD, 90),
    ("terraform cloud", &["abcdefgh123456", ".atl", "asv1."], WORD, 67),
    ("google refresh token", &["1/", "/0g"], WORD, 100),
    ("google authorization code", &["4/", "0A"], WORD, 70),
    ("telegram bot", &["7123456789", ":A", "A"], WORD, 33),
    ("atlassian api", &["ATA", "TT3xFfGF0"], WORD, 180),
    ("atlassian cloud", &["ATC", "TT3xFfGF0"], WORD, 180),
    ("bitbucket app password", &["ATB", "B"], ALNUM, 32),
    ("notion secret", &["sec", "ret_"], ALNUM, 43),
    ("notion token", &["nt", "n_"], ALNUM, 46),
    ("supabase personal", &["sb", "p_"], HEX, 40),
    ("supabase secret", &["sb_", "secret_"], WORD, 31),
    ("new relic user", &["NR", "AK-"], UPPER, 27),
    ("new relic insert", &["NR", "II-"], WORD, 32),
    ("new relic browser", &["NR", "JS-"], HEX, 19),
    ("postman", &["PM", "AK-", "0123456789abcdef01234567-"], HEX, 34),
    ("doppler personal", &["dp", ".pt."], ALNUM, 43),
    ("doppler service", &["dp", ".st.", "dev."], ALNUM, 40),
    ("doppler cli", &["dp", ".ct."], ALNUM, 43),
    ("doppler account", &["dp", ".sa."], ALNUM, 43),
    ("square access", &["EA", "AA"], WORD, 60),
    ("square secret", &["sq0", "csp-"], WORD, 43),
    ("square personal", &["sq0", "atp-"], WORD, 22),
    ("fly", &["fo", "1_"], WORD, 43),
    ("fly macaroon", &["fm", "2_"], ALNUM, 200),
    ("tavily", &["tv", "ly-"], ALNUM, 32),
    ("tavily development", &["tv", "ly-dev-"], ALNUM, 32),
    ("facebook", &["EA", "AC"], ALNUM, 120),
    ("mailgun", &["ke", "y-"], HEX, 32),
    ("azure client secret", &["abc", "8Q", "~"], WORD, 34),
    ("grafana service account", &["gl", "sa_"], ALNUM, 41),
    ("grafana cloud", &["gl", "c_"], ALNUM, 80),
    ("sentry organization", &["sn", "trys_"], ALNUM, 120),
    ("sentry user", &["sn", "tryu_"], HEX, 64),
    ("planetscale password", &["pscale", "_pw_"], WORD, 43),
    ("planetscale token", &["pscale", "_tkn_"], WORD, 43),
    ("pulumi", &["pu", "l-"], HEX, 40),
    ("rubygems", &["ruby", "gems_"], HEX, 48),
    ("sonarqube user", &["sq", "u_"], HEX, 40),
    ("sonarqube project", &["sq", "p_"], HEX, 40),
    ("tailscale", &["ts", "key-auth-"], ALNUM, 40),
    ("sendinblue", &["xkey", "sib-"], HEX, 81),
    ("figma", &["fi", "gd_"], WORD, 40),
    ("netlify", &["nf", "p_"], ALNUM, 36),
    ("dynatrace", &["dt", "0c01."], UPPER, 24),
    ("langsmith", &["lsv2", "_pt_"], HEX, 43),
    ("pinecone", &["pc", "sk_"], WORD, 68),
    ("e2b", &["e2", "b_"], HEX, 40),
    ("firecrawl", &["fc", "-"], HEX, 32),
    ("jina", &["ji", "na_"], WORD, 60),
    ("1password", &["ops", "_eyJ"], ALNUM, 250),
    ("alibaba", &["LT", "AI5t"], ALNUM, 20),
    ("shopify custom app", &["shp", "ca_"], HEX, 32),
    ("shopify private app", &["shp", "pa_"], HEX, 32),
    ("gitlab deploy", &["gl", "dt-"], WORD, 20),
    ("gitlab runner", &["gl", "rt-"], WORD, 20),
    ("gitlab trigger", &["gl", "ptt-"], HEX, 40),
    ("docker organization", &["dckr", "_oat_"], WORD, 32),
    ("circleci", &["CCI", "PAT_"], ALNUM, 60),
    ("openshift", &["sha", "256~"], WORD, 43),
    ("discord webhook", &["discord.com/api/", "webhooks/", "123456789012345678/"], WORD, 68),
    ("adobe", &["p8", "e-"], ALNUM, 32),
    ("airtable", &["pa", "tABCDEFGHIJ0123."], HEX, 64),
    ("artifactory", &["AKC", "p8"], ALNUM, 68),
    ("artifactory reference", &["cmVm", "dGtuOj"], ALNUM, 54),
    ("bedrock", &["AB", "SK"], ALNUM, 128),
    ("bedrock short", &["bedrock-", "api-key-"], ALNUM, 200),
    ("clickhouse", &["4b", "1d"], ALNUM, 38),
    ("clojars", &["CLO", "JARS_"], LOWER, 60),
    ("cloudflare origin", &["v1.", "0-", "0123456789abcdef01234567-"], HEX, 146),
    ("defined networking", &["dn", "key-"], LOWER, 79),
    ("dropbox", &["s", "l."], WORD, 140),
    ("duffel", &["duffel", "_test_"], WORD, 43),
    ("easypost", &["EZ", "AK"], LOWER, 54),
    ("easypost test", &["EZ", "TK"], LOWER, 54),
    ("endor", &["en", "dr+"], ALNUM, 16),
    ("flutterwave", &["FLW", "SECK_TEST-"], HEX, 32),
    ("frameio", &["fio", "-u-"], WORD, 64),
    ("gitlab feature flag", &["glf", "fct-"], WORD, 20),
    ("gitlab runner registration", &["GR13", "48941"], WORD, 20),
    ("gocardless", &["li", "ve_"], ALNUM, 40),
    ("lob", &["te", "st_"], HEX, 35),
    ("grafana legacy", &["eyJr", "Ijoi"], ALNUM, 90),
    ("harness", &["pa", "t.", "0123456789abcdefABCDEF.0123456789abcdefABCDEF01."], ALNUM, 20),
    ("heroku", &["HR", "KU-AA"], WORD, 58),
    ("hubspot", &["pat", "-na1-", "01234567-89ab-cdef-0123-"], HEX, 12),
    ("huggingface organization", &["api", "_org_"], ALNUM, 34),
    ("infracost", &["ic", "o-"], ALNUM, 32),
    ("intra42", &["s-s4", "t2ud-"], HEX, 64),
    ("linear oauth", &["lin", "_oauth_"], HEX, 64),
    ("mapbox", &["s", "k.eyJ"], ALNUM, 80),
    ("teams webhook", &["a.webhook.office.com/", "webhookb2/", "01234567-89ab-cdef-0123-456789abcdef@x/IncomingWebhook/"], HEX, 68),
    ("mongodb", &["mdb", "_sa_sk_"], WORD, 40),
    ("neon", &["na", "pi_"], LOWER, 60),
    ("nuget", &["oy", "2"], LOWER, 43),
    ("octopus", &["AP", "I-"], "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", 26),
    ("onesignal", &["os_v2", "_app_"], LOWER, 103),
    ("plaid", &["access-", "sandbox-", "01234567-89ab-cdef-0123-"], HEX, 12),
    ("posthog", &["ph", "x_"], ALNUM, 43),
    ("prefect", &["pn", "u_"], LOWER, 36),
    ("readme", &["rd", "me_"], LOWER, 70),
    ("render", &["rn", "d_"], ALNUM, 28),
    ("resend", &["r", "e_", "Ab12Cd34_"], ALNUM, 24),
    ("runpod", &["rp", "a_"], ALNUM, 46),
    ("scalingo", &["tk-", "us-"], WORD, 48),
    ("settlemint", &["sm", "_aat_"], ALNUM, 16),
    ("shippo", &["shippo", "_test_"], HEX, 40),
    ("sourcegraph", &["sg", "p_"], HEX, 40),
    ("stripe organization", &["sk_", "org_"], ALNUM, 40),
    ("svix", &["wh", "sec_"], ALNUM, 32),
    ("slack workflow", &["hooks.slack.com/", "workflows/"], ALNUM, 40),
    ("typeform", &["tf", "p_"], ALNUM, 59),
    ("vercel", &["vc", "p_"], ALNUM, 56),
    ("wakatime", &["wa", "ka_", "01234567-89ab-cdef-0123-"], HEX, 12),
    ("yandex api", &["AQ", "VN"], WORD, 36),
    ("yandex iam", &["t1.", "9eu"], WORD, 120),
    ("zuplo", &["zp", "ka_"], ALNUM, 48),
    ("trello", &["AT", "TA"], HEX, 72),
    ("together", &["tgp", "_v1_"], WORD, 43),
    ("fireworks", &["f", "w_"], ALNUM, 22),
    ("elevenlabs", &["s", "k_"], HEX, 48),
    ("langfuse", &["sk", "-lf-", "01234567-89ab-cdef-0123-"], HEX, 12),
    ("wandb", &["wandb", "_v1_"], WORD, 80),
    ("apify", &["apify", "_api_"], ALNUM, 36),
    ("browserbase", &["bb", "_live_"], WORD, 27),
    ("buildkite", &["bk", "ua_"], HEX, 40),
    ("braintree", &["access_token", "$production$", "0123456789abcdef$"], HEX, 32),
    ("contentful", &["CFP", "AT-"], WORD, 43),
    ("deno", &["dd", "p_"], ALNUM, 36),
    ("honeycomb", &["hc", "aik_"], LOWER, 58),
    ("axiom", &["xa", "at-", "01234567-89ab-cdef-0123-"], HEX, 12),
    ("logfire", &["pylf", "_v1_"], ALNUM, 46),
    ("pagerduty", &["pd", "us+"], WORD, 40),
    ("xata", &["xa", "u_"], ALNUM, 44),
    ("tencent", &["AK", "ID"], ALNUM, 32),
    ("volcengine", &["AK", "LT"], ALNUM, 47),
    ("baidu", &["bce-v3/", "ALTAK-", "Abcdefghij0123456789x/"], HEX, 40),
    ("checkly", &["c", "u_"], HEX, 32),
    ("crates.io", &["ci", "o"], ALNUM, 32),
    ("modal", &["a", "k-"], ALNUM, 22),
    ("voyage", &["p", "a-"], WORD, 43),
    ("brave", &["BS", "A"], ALNUM, 28),
    ("anyscale", &["esec", "ret_"], ALNUM, 30),
    ("val town", &["vt", "wn_"], ALNUM, 30),
    ("trigger.dev", &["tr", "_dev_"], ALNUM, 20),
    ("cal.com", &["cal", "_live_"], HEX, 32),
    ("unkey", &["un", "key_"], ALNUM, 22),
    ("zoho", &["10", "00.", "0123456789abcdef0123456789abcdef."], HEX, 32),
    ("okta scheme", &["SSWS ", "00"], WORD, 40),
];

/// Formats with more parts than a prefix.
fn compound() -> Vec<(&'static str, String)> {
    let id = "MTI".to_owned() + &random(ALNUM, 23, 2);
    let discord = id + ".Gx" + &random(ALNUM, 4, 3) + "." + &random(WORD, 38, 4);
    vec![
        ("discord bot", format!("discord.Client().run {discord}")),
        ("azure devops", random(ALNUM, 76, 5) + "AZ" + "DO" + &random(ALNUM, 4, 6)),
        ("azure ai", random(ALNUM, 52, 7) + "JQQ" + "J99" + &random(ALNUM, 26, 8)),
        ("azure storage", random(ALNUM, 76, 9) + "+A" + "St" + &random(ALNUM, 6, 10) + "=="),
        ("azure search", random(ALNUM, 42, 11) + "Az" + "Se" + &random(ALNUM, 6, 12)),
        ("mailchimp", random(HEX, 32, 21) + "-u" + "s14"),
        ("maxmind", random(ALNUM, 6, 22) + "_" + &random(ALNUM, 29, 23) + "_m" + "mk"),
        ("vault legacy", "s".to_owned() + "." + &random(ALNUM, 24, 24)),
        (
            "azure devops legacy",
            "https://dev.azure.com/org ".to_owned() + &random("abcdefghijklmnopqrstuvwxyz234567", 52, 25),
        ),
        ("amazon marketplace", "amzn.".to_owned() + "mws." + "01234567-89ab-cdef-0123-456789abcdef"),
        ("new relic license", random(HEX, 36, 13) + "NR" + "AL"),
    ]
}

#[test]
fn every_published_format_is_found() {
    let simple = ROWS.iter().enumerate().map(|(seed, (provider, prefix, alphabet, length))| {
        (*provider, prefix.concat() + &random(alphabet, *length, seed as u64 + 900))
    });
    let mut missed = Vec::new();
    for (provider, text) in simple.chain(compound()) {
        let secret = text.rsplit(' ').next().expect("a text");
        for body in [
            format!("here: {text} and more"),
            format!("{{\"text\":\"{}\"}}", inner(&format!("{{\"note\":\"{text}\"}}"))),
            format!("| {text} |"),
            format!("'{text}',"),
        ] {
            let mut redactor = redactor();
            let out = redactor.redact_text("f", body.as_bytes()).bytes.into_owned();
            let left = String::from_utf8_lossy(&out).into_owned();
            if left.contains(&secret[secret.len() - 12..]) {
                missed.push(format!("{provider}: {left}"));
            }
            assert_eq!(redactor.find_residues("f", &out), [], "{provider}: {left}");
        }
    }
    assert!(missed.is_empty(), "{} are missed:\n{}", missed.len(), missed.join("\n"));
}

#[test]
fn similar_texts_stay() {
    for text in [
        "hvs.js, hvb.example, EAA and EAAA are short, ATBB, key-value, key-board, key-0123456789abcdef",
        "dp.pt.x, dp.state.value, sha256~ is a prefix, fc-cache, fm2_x, fo1_y, ntn_z, secret_name_of_the_thing",
        "discord and a word.second.third; the Discord server at https://discord.com/channels/1/2",
        "8Q~ and 7Q~, 1//0 and 4/0A, pul-lover, sqp_, glc_, nfp_",
        "secret_manager_service_account_key_version_number_reference",
        "12:AAPL and 2024:AA, time 12:34:56:AAAA",
    ] {
        let mut redactor = redactor();
        assert_eq!(String::from_utf8_lossy(&redactor.redact_text("f", text.as_bytes()).bytes), text);
    }
    let key = format!("key-{}", random(LOWER, 40, 1));
    assert_eq!(String::from_utf8_lossy(&redactor().redact_text("f", key.as_bytes()).bytes), key);
}

/// The prefix of a token alone, with too little after it, with words after it, and inside of another word.
#[test]
fn near_misses_stay() {
    let mut changed = Vec::new();
    for (seed, (provider, prefix, alphabet, length)) in ROWS.iter().enumerate() {
        let start = prefix.concat();
        if start.contains(' ') || start.len() > 24 {
            continue;
        }
        let short = random(alphabet, (*length).min(7), seed as u64);
        let texts = [
            format!("the prefix {start} of a token"),
            format!("see {start}{short} there"),
            format!("{start}the-name-of-a-thing and {start}name_of_a_thing"),
            format!("abc{start}{short}def"),
        ];
        for text in texts {
            let out = redactor().redact_text("f", text.as_bytes()).bytes.into_owned();
            if out != text.as_bytes() {
                changed.push(format!("{provider}: {text}"));
            }
        }
    }
    for text in [
        "items.items.abcdefghijklmnopqrstuvwx, its.value, e.s.abc, plus.s.ABCDEFGH",
        "const s.getElementsByTagNameFor12 = 1; x = s.replaceAllOccurrencesIn(y)",
        "https://dev.azure.com/org/project/_build abcdefghijklmnopqrstuvwxyz and devops pipelines",
        "md5 0123456789abcdef0123456789abcdef in region us-east-1, thus-13",
        "{\"kty\":\"RSA\",\"n\":\"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86z\",\"e\":\"AQAB\"}",
        "---- BEGIN SSH2 PUBLIC KEY ----\nAAAAB3NzaC1yc2EAAAABIwAAAQEAklOUpkDHrfHY17SbrmTIp\n---- END SSH2 PUBLIC KEY ----",
    ] {
        let out = redactor().redact_text("f", text.as_bytes()).bytes.into_owned();
        if out != text.as_bytes() {
            changed.push(text.to_owned());
        }
    }
    assert!(changed.is_empty(), "{} changed:\n{}", changed.len(), changed.join("\n"));
}

/// Private keys in the formats of other programs than OpenSSL.
#[test]
fn private_keys_of_other_programs() {
    let line = |seed| random(ALNUM, 64, seed);
    let (first, second) = (line(31), line(32));
    let number = random(WORD, 43, 33);
    for (kind, text, secret) in [
        (
            "putty",
            format!(
                "PuTTY-User-Key-File-3: ssh-ed25519\nEncryption: none\nPrivate-Lines: 2\n{first}\n{second}\nPrivate-MAC: 01ab\n"
            ),
            &second,
        ),
        (
            "ssh.com",
            format!(
                "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nComment: \"x\"\n{first}\n{second}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----\n"
            ),
            &first,
        ),
        (
            "minisign",
            format!("untrusted comment: minisign encrypted secret key\nRWRTY0Iy{first}{second}=\n"),
            &first,
        ),
        ("signify", format!("untrusted comment: signify secret key\nRWRC{first}{second}\n"), &second),
        (
            "jwk",
            format!("{{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2\",\"d\":\"{number}\"}}"),
            &number,
        ),
        ("jwk first", format!("{{\"d\": \"{number}\", \"kty\": \"OKP\"}}"), &number),
        ("wireguard", format!("[Interface]\nPrivateKey = {number}=\nPresharedKey = {number}=\n"), &number),
    ] {
        for body in [text.clone(), format!("{{\"text\":\"{}\"}}", inner(&text))] {
            let out = redactor().redact_text("f", body.as_bytes()).bytes.into_owned();
            let left = String::from_utf8_lossy(&out);
            assert!(!left.contains(secret.as_str()), "{kind}: {left}");
        }
    }
}

/// Texts that documentation writes for a reader to replace.
#[test]
fn placeholders_of_documentation_stay() {
    for text in [
        "export TOKEN=<your key>\n",
        "export API_KEY=<YOUR-API-KEY> DB_PASSWORD=<the password of the database>\n",
        "TOKEN=<your key>; echo done",
        "?api_key=<your key>&x=1",
        "--token <your token> --password <your password>",
    ] {
        for body in [text.to_owned(), format!("{{\"text\":\"{}\"}}", inner(text))] {
            assert_eq!(String::from_utf8_lossy(&redactor().redact_text("f", body.as_bytes()).bytes), body);
        }
    }
}
