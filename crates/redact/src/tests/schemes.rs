//! Credentials with a scheme, and credentials in URLs.

use super::*;

/// Returns a redacted body that repeats the credential of a header.
fn repeated(value: &str, secret: &str) -> String {
    let mut redactor = redactor();
    redactor.redact_headers("request", &[("Authorization".to_owned(), value.as_bytes().to_vec())]);
    let body = format!("{{\"said\":\"it is {secret} here\"}}");
    String::from_utf8_lossy(&redactor.redact_text("body", body.as_bytes()).bytes).into_owned()
}

#[test]
fn no_scheme_is_a_part_of_its_credential() {
    let secret = random(ALNUM, 24, 400);
    for form in [
        "SSWS @",
        "Bot @",
        "OAuth @",
        "DPoP @",
        "GenieKey @",
        "Splunk @",
        "Klaviyo-API-Key @",
        "Zoho-oauthtoken @",
        "X @",
        "GoogleLogin auth=@",
        "Token token=@",
        "Token token=\"@\", email=\"me@host.example.com\"",
        "Discogs key=abcdefgh12345678abcd, secret=@",
        "Bearer\t@",
        "Bearer \"@\"",
        "Bearer: @",
        "Bearer a, Bearer @",
        "Digest username=\"me\", realm=\"a realm of mine\", uri=\"/v1/messages/of/mine\", response=\"@\"",
        "AWS4-HMAC-SHA256 Credential=me/20240101/us-east-1/s3/aws4_request, SignedHeaders=host;x-amz-date, Signature=@",
        "@",
        "Bearer @",
        "bearer  @",
    ] {
        let left = repeated(&form.replace('@', &secret), &secret);
        assert!(!left.contains(&secret), "{form}: {left}");
    }
}

#[test]
fn text_around_a_credential_stays() {
    let secret = random(ALNUM, 24, 401);
    for (form, word) in [
        (
            "Digest username=\"me\", realm=\"a realm of mine at home\", response=\"@\"",
            "a realm of mine at home",
        ),
        ("Digest uri=\"/v1/messages/of/mine\", response=\"@\"", "/v1/messages/of/mine"),
        (
            "AWS4-HMAC-SHA256 SignedHeaders=host;x-amz-date;x-amz-target, Signature=@",
            "host;x-amz-date;x-amz-target",
        ),
        ("Token token=\"@\", email=\"somebody@host.example.com\"", "somebody@host.example.com"),
        ("AWS4-HMAC-SHA256 Signature=@", "AWS4-HMAC-SHA256"),
        ("Access permitted", "permitted"),
        ("Access permitted, everybody welcome", "everybody welcome"),
    ] {
        let left = repeated(&form.replace("=\"@\"", &format!("=\"{secret}\"")), word);
        assert!(left.contains(word), "{form}: {left}");
    }
}

#[test]
fn header_lines_with_any_scheme() {
    let secret = random(ALNUM, 24, 402);
    for form in ["@ is it", "DPoP @", "SSWS @", "Klaviyo-API-Key @", "Bearer\t@", "Bearer: @"] {
        let text = format!("> Authorization: {}\n> Accept: */*\n", form.replace('@', &secret));
        let out = redactor().redact_text("file", text.as_bytes()).bytes.into_owned();
        let left = rules::short(&out);
        assert_eq!(left, format!("> Authorization: {}\n> Accept: */*\n", form.replace('@', "‹›")));
    }
}

#[test]
fn signatures_in_addresses() {
    let hex = random(HEX, 48, 403);
    let base64 = format!("{}%2F{}%3D", random(ALNUM, 20, 404), random(ALNUM, 20, 405));
    for (text, secret) in [
        (format!("https://b.s3.amazonaws.com/k?X-Amz-Date=20240101&X-Amz-Signature={hex} there"), &hex),
        (format!("https://storage.example/k?X-Goog-Signature={hex}&X-Goog-Date=20240101"), &hex),
        (format!("https://a.blob.example/c?sv=2020&sig={base64}&se=1"), &base64),
        (format!("https://a.blob.example/c?sig={hex}"), &hex),
        (format!("<a href=\"https://a.example/c?a=1&amp;Signature={hex}&amp;b=2\">"), &hex),
        (format!("https://d.cloudfront.example/c?Expires=1&Signature={hex}&Key-Pair-Id=K12345678"), &hex),
    ] {
        for body in [text.clone(), format!("{{\"text\":\"{}\"}}", inner(&text))] {
            let mut redactor = redactor();
            let out = redactor.redact_text("file", body.as_bytes()).bytes.into_owned();
            let left = String::from_utf8_lossy(&out).into_owned();
            assert!(!left.contains(&secret[..16]) && left.contains("offshoot-redacted-"), "{left}");
            assert_eq!(redactor.find_residues("file", &out), [], "{left}");
            for stays in ["20240101", "&se=1", "b=2", "there", "Key-Pair-Id=K12345678"] {
                assert!(!body.contains(stays) || left.contains(stays), "{stays} in {left}");
            }
        }
    }
}

/// A variable or option that is called a key contains one if its value looks like one.
#[test]
fn variables_that_are_called_keys() {
    let value = random(ALNUM, 24, 406);
    for name in ["MISTRAL_KEY", "STRIPE_KEY", "FERNET_KEY", "APP_KEY", "GITHUB_PAT", "JWT", "KEY", "GL_PAT_2"]
    {
        let mut redactor = redactor();
        redactor.learn_env([(name.to_owned(), value.clone())]);
        assert_eq!(redactor.generation(), 1, "{name}");
    }
    let mut redactor = redactor();
    let vars = [
        ("PUBLIC_KEY", value.as_str()),
        ("SSH_PUBLIC_KEY", value.as_str()),
        ("NEXT_PUBLIC_KEY", value.as_str()),
        ("CACHE_KEY", "build-cache-key-of-main"),
        ("APP_KEY", "/home/me/.config/app-1a2b3c4d5e.pem"),
        ("SORT_KEY", "created_at_2024"),
        ("HOT_KEY", "ctrl-shift-f12"),
        ("APP_KEY", "com.example.Application2"),
        ("PAT", "pattern-of-words"),
    ];
    redactor.learn_env(vars.map(|(name, value)| (name.to_owned(), value.to_owned())));
    assert_eq!(redactor.generation(), 0);
    let words = ["tool", "--key", "abcdefgh1234567", "--key=abcdefgh1234568"].map(str::to_owned);
    let kept = redactor.redact_command_line("command line", &words);
    assert_eq!(rules::short(kept.join(" ").as_bytes()), "tool --key ‹› --key=‹›");
    let stay = ["sort", "--key", "2,2", "--key=name", "--public-key", "abcdefgh7654321"].map(str::to_owned);
    assert_eq!(redactor.redact_command_line("command line", &stay), stay);
}
