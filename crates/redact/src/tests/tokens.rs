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
