//! Secrets that are recognized by their shape.
//!
//! There are two tables: [`PREFIX_SHAPES`] for keys with a fixed prefix and a fixed alphabet, and [`GRAMMARS`] for
//! other formats. Each row has a trigger, which the search looks for, and conditions that exclude other texts.

use std::ops::Range;

use base64::Engine as _;

use super::examples::is_reference;
use super::runs::{ShapeMatch, before, hcl_default, is_mixed, run};
use super::values::is_word;
use super::{commands, examples, login, logins, looks, pem, placeholder, sql};

/// A key with a fixed prefix.
struct PrefixShape {
    rule: &'static str,
    prefixes: &'static [&'static str],
    /// The alphabet of the rest.
    alphabet: fn(u8) -> bool,
    /// The length of the rest.
    length: Range<usize>,
    /// A further condition on the rest.
    also: fn(&[u8]) -> bool,
}

const LONG: usize = 4096;

#[rustfmt::skip]
const PREFIX_SHAPES: &[PrefixShape] = &[
    PrefixShape { rule: "shape:anthropic", prefixes: &["sk-ant-"], alphabet: word, length: 16..LONG, also: has_digit },
    PrefixShape { rule: "shape:openrouter", prefixes: &["sk-or-"], alphabet: word, length: 24..LONG, also: has_digit },
    PrefixShape { rule: "shape:openai", prefixes: &["sk-proj-", "sk-svcacct-", "sk-admin-", "sk-None-"], alphabet: word, length: 20..LONG, also: has_digit },
    PrefixShape { rule: "shape:openai", prefixes: &["sk-"], alphabet: word, length: 20..LONG, also: has_long_run },
    PrefixShape { rule: "shape:openai", prefixes: &["sess-"], alphabet: alnum, length: 32..LONG, also: has_digit },
    PrefixShape { rule: "shape:google", prefixes: &["AIza"], alphabet: word, length: 32..41, also: has_digit },
    PrefixShape { rule: "shape:google", prefixes: &["ya29.", "GOCSPX-"], alphabet: word, length: 20..LONG, also: always },
    PrefixShape { rule: "shape:github", prefixes: &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], alphabet: alnum, length: 30..256, also: always },
    PrefixShape { rule: "shape:github", prefixes: &["github_pat_"], alphabet: word, length: 30..256, also: has_digit },
    PrefixShape { rule: "shape:gitlab", prefixes: &["glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-"], alphabet: word, length: 20..256, also: always },
    PrefixShape { rule: "shape:slack", prefixes: &["xoxa-", "xoxb-", "xoxc-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"], alphabet: dashed, length: 16..512, also: has_digit },
    PrefixShape { rule: "shape:slack", prefixes: &["xoxd-"], alphabet: encoded, length: 16..512, also: has_digit },
    PrefixShape { rule: "shape:slack", prefixes: &["hooks.slack.com/services/"], alphabet: slashed, length: 20..128, also: has_digit },
    PrefixShape { rule: "shape:stripe", prefixes: &["sk_live_", "rk_live_", "sk_test_", "rk_test_", "whsec_"], alphabet: alnum, length: 16..256, also: has_digit },
    PrefixShape { rule: "shape:npm", prefixes: &["npm_"], alphabet: alnum, length: 30..64, also: has_digit },
    PrefixShape { rule: "shape:pypi", prefixes: &["pypi-"], alphabet: word, length: 40..LONG, also: has_long_run },
    PrefixShape { rule: "shape:huggingface", prefixes: &["hf_"], alphabet: alnum, length: 30..64, also: is_mixed },
    PrefixShape { rule: "shape:groq", prefixes: &["gsk_"], alphabet: alnum, length: 32..128, also: has_digit },
    PrefixShape { rule: "shape:xai", prefixes: &["xai-"], alphabet: alnum, length: 32..128, also: has_digit },
    PrefixShape { rule: "shape:databricks", prefixes: &["dapi"], alphabet: hex, length: 32..33, also: has_digit },
    PrefixShape { rule: "shape:digitalocean", prefixes: &["dop_v1_", "doo_v1_", "dor_v1_"], alphabet: hex, length: 32..129, also: has_digit },
    PrefixShape { rule: "shape:twilio", prefixes: &["SK0", "SK1", "SK2", "SK3", "SK4", "SK5", "SK6", "SK7", "SK8", "SK9", "SKa", "SKb", "SKc", "SKd", "SKe", "SKf"], alphabet: hex, length: 31..32, also: has_digit },
    PrefixShape { rule: "shape:perplexity", prefixes: &["pplx-"], alphabet: alnum, length: 32..128, also: has_digit },
    PrefixShape { rule: "shape:nvidia", prefixes: &["nvapi-"], alphabet: word, length: 32..128, also: has_digit },
    PrefixShape { rule: "shape:cerebras", prefixes: &["csk-"], alphabet: alnum, length: 32..128, also: has_digit },
    PrefixShape { rule: "shape:replicate", prefixes: &["r8_"], alphabet: alnum, length: 32..64, also: is_mixed },
    PrefixShape { rule: "shape:linear", prefixes: &["lin_api_"], alphabet: alnum, length: 32..64, also: has_digit },
    PrefixShape { rule: "shape:docker", prefixes: &["dckr_pat_", "dckr_oat_"], alphabet: word, length: 20..64, also: always },
    PrefixShape { rule: "shape:shopify", prefixes: &["shpat_", "shpss_", "shpca_", "shppa_"], alphabet: hex, length: 32..33, also: has_digit },
    PrefixShape { rule: "shape:vault", prefixes: &["hvs.", "hvb.", "hvr."], alphabet: word, length: 24..LONG, also: has_digit },
    PrefixShape { rule: "shape:google", prefixes: &["1//0", "4/0A"], alphabet: word, length: 36..512, also: has_digit },
    PrefixShape { rule: "shape:atlassian", prefixes: &["ATATT3", "ATCTT3"], alphabet: padded, length: 60..512, also: has_digit },
    PrefixShape { rule: "shape:atlassian", prefixes: &["ATBB"], alphabet: alnum, length: 32..33, also: is_mixed },
    PrefixShape { rule: "shape:notion", prefixes: &["ntn_", "secret_"], alphabet: alnum, length: 43..64, also: has_digit },
    PrefixShape { rule: "shape:supabase", prefixes: &["sbp_"], alphabet: hex, length: 40..41, also: has_digit },
    PrefixShape { rule: "shape:supabase", prefixes: &["sb_secret_"], alphabet: word, length: 24..128, also: has_digit },
    PrefixShape { rule: "shape:newrelic", prefixes: &["NRAK-", "NRII-", "NRJS-"], alphabet: word, length: 19..64, also: has_digit },
    PrefixShape { rule: "shape:postman", prefixes: &["PMAK-"], alphabet: dashed, length: 59..60, also: has_digit },
    PrefixShape { rule: "shape:doppler", prefixes: &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."], alphabet: dotted, length: 40..96, also: has_digit },
    PrefixShape { rule: "shape:square", prefixes: &["sq0csp-", "sq0atp-"], alphabet: word, length: 22..64, also: has_digit },
    PrefixShape { rule: "shape:facebook", prefixes: &["EAA"], alphabet: word, length: 60..512, also: is_mixed },
    PrefixShape { rule: "shape:fly", prefixes: &["fo1_", "fm1r_", "fm1a_", "fm2_"], alphabet: padded, length: 40..LONG, also: has_digit },
    PrefixShape { rule: "shape:tavily", prefixes: &["tvly-"], alphabet: dashed, length: 24..128, also: has_digit },
    PrefixShape { rule: "shape:mailgun", prefixes: &["key-"], alphabet: hex, length: 32..33, also: has_digit },
    PrefixShape { rule: "shape:grafana", prefixes: &["glsa_", "glc_"], alphabet: padded, length: 32..512, also: has_digit },
    PrefixShape { rule: "shape:sentry", prefixes: &["sntrys_", "sntryu_"], alphabet: padded, length: 60..512, also: has_digit },
    PrefixShape { rule: "shape:planetscale", prefixes: &["pscale_pw_", "pscale_tkn_", "pscale_oauth_"], alphabet: dotted, length: 32..96, also: has_digit },
    PrefixShape { rule: "shape:pulumi", prefixes: &["pul-"], alphabet: hex, length: 40..41, also: has_digit },
    PrefixShape { rule: "shape:rubygems", prefixes: &["rubygems_"], alphabet: hex, length: 48..49, also: has_digit },
    PrefixShape { rule: "shape:sonar", prefixes: &["sqp_", "squ_", "sqa_"], alphabet: hex, length: 40..41, also: has_digit },
    PrefixShape { rule: "shape:tailscale", prefixes: &["tskey-"], alphabet: dashed, length: 24..128, also: has_digit },
    PrefixShape { rule: "shape:brevo", prefixes: &["xkeysib-"], alphabet: dashed, length: 80..96, also: has_digit },
    PrefixShape { rule: "shape:figma", prefixes: &["figd_"], alphabet: word, length: 36..64, also: has_digit },
    PrefixShape { rule: "shape:netlify", prefixes: &["nfp_"], alphabet: alnum, length: 36..64, also: has_digit },
    PrefixShape { rule: "shape:dynatrace", prefixes: &["dt0c01."], alphabet: dotted, length: 24..128, also: has_digit },
    PrefixShape { rule: "shape:langsmith", prefixes: &["lsv2_pt_", "lsv2_sk_"], alphabet: word, length: 32..64, also: has_digit },
    PrefixShape { rule: "shape:pinecone", prefixes: &["pcsk_"], alphabet: word, length: 40..96, also: has_digit },
    PrefixShape { rule: "shape:e2b", prefixes: &["e2b_"], alphabet: hex, length: 40..41, also: has_digit },
    PrefixShape { rule: "shape:firecrawl", prefixes: &["fc-"], alphabet: hex, length: 32..33, also: has_digit },
    PrefixShape { rule: "shape:jina", prefixes: &["jina_"], alphabet: word, length: 40..96, also: has_digit },
    PrefixShape { rule: "shape:1password", prefixes: &["ops_eyJ"], alphabet: padded, length: 200..LONG, also: has_digit },
    PrefixShape { rule: "shape:alibaba", prefixes: &["LTAI"], alphabet: alnum, length: 16..27, also: is_mixed },
    PrefixShape { rule: "shape:circleci", prefixes: &["CCIPAT_"], alphabet: word, length: 40..96, also: has_digit },
    PrefixShape { rule: "shape:openshift", prefixes: &["sha256~"], alphabet: word, length: 43..44, also: has_digit },
    PrefixShape { rule: "shape:discord", prefixes: &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"], alphabet: path, length: 70..128, also: has_digit },
    PrefixShape { rule: "shape:age", prefixes: &["AGE-SECRET-KEY-"], alphabet: alnum, length: 32..128, also: has_digit },
    PrefixShape { rule: "shape:adobe", prefixes: &["p8e-"], alphabet: alnum, length: 32..33, also: is_mixed },
    PrefixShape { rule: "shape:airtable", prefixes: &["pat"], alphabet: dotted, length: 79..80, also: has_dot_at_14 },
    PrefixShape { rule: "shape:artifactory", prefixes: &["AKCp", "cmVmdGtuOj"], alphabet: alnum, length: 50..80, also: is_mixed },
    PrefixShape { rule: "shape:amazon", prefixes: &["ABSK", "bedrock-api-key-"], alphabet: padded, length: 60..LONG, also: is_mixed },
    PrefixShape { rule: "shape:amazon", prefixes: &["amzn.mws."], alphabet: dashed, length: 36..37, also: has_digit },
    PrefixShape { rule: "shape:clickhouse", prefixes: &["4b1d"], alphabet: alnum, length: 38..39, also: is_cased },
    PrefixShape { rule: "shape:clojars", prefixes: &["CLOJARS_"], alphabet: alnum, length: 60..61, also: has_digit },
    PrefixShape { rule: "shape:cloudflare", prefixes: &["v1.0-"], alphabet: dashed, length: 171..172, also: has_digit },
    PrefixShape { rule: "shape:defined-networking", prefixes: &["dnkey-"], alphabet: dashed, length: 60..96, also: has_digit },
    PrefixShape { rule: "shape:dropbox", prefixes: &["sl."], alphabet: dotted, length: 120..LONG, also: is_cased },
    PrefixShape { rule: "shape:duffel", prefixes: &["duffel_test_", "duffel_live_"], alphabet: word, length: 43..44, also: has_digit },
    PrefixShape { rule: "shape:easypost", prefixes: &["EZAK", "EZTK"], alphabet: alnum, length: 54..55, also: has_digit },
    PrefixShape { rule: "shape:endor", prefixes: &["endr+"], alphabet: dashed, length: 16..17, also: has_digit },
    PrefixShape { rule: "shape:flutterwave", prefixes: &["FLWSECK_TEST", "FLWSECK-"], alphabet: word, length: 12..64, also: has_digit },
    PrefixShape { rule: "shape:frameio", prefixes: &["fio-u-"], alphabet: padded, length: 64..65, also: has_digit },
    PrefixShape { rule: "shape:gitlab", prefixes: &["glffct-", "glrtr-", "GR1348941"], alphabet: word, length: 20..256, also: has_digit },
    PrefixShape { rule: "shape:gocardless", prefixes: &["live_"], alphabet: word, length: 40..41, also: has_long_run },
    PrefixShape { rule: "shape:lob", prefixes: &["live_", "test_"], alphabet: hex, length: 35..36, also: has_digit },
    PrefixShape { rule: "shape:grafana", prefixes: &["eyJrIjoi"], alphabet: padded, length: 60..512, also: has_digit },
    PrefixShape { rule: "shape:harness", prefixes: &["pat.", "sat."], alphabet: dotted, length: 68..69, also: has_digit },
    PrefixShape { rule: "shape:heroku", prefixes: &["HRKU-"], alphabet: word, length: 36..80, also: has_digit },
    PrefixShape { rule: "shape:hubspot", prefixes: &["pat-na1-", "pat-na2-", "pat-eu1-", "pat-ap1-"], alphabet: dashed, length: 36..37, also: has_digit },
    PrefixShape { rule: "shape:huggingface", prefixes: &["api_org_"], alphabet: alnum, length: 34..35, also: is_cased },
    PrefixShape { rule: "shape:infracost", prefixes: &["ico-"], alphabet: alnum, length: 32..33, also: is_mixed },
    PrefixShape { rule: "shape:intra42", prefixes: &["s-s4t2ud-", "s-s4t2af-"], alphabet: hex, length: 64..65, also: has_digit },
    PrefixShape { rule: "shape:linear", prefixes: &["lin_oauth_"], alphabet: alnum, length: 32..80, also: has_digit },
    PrefixShape { rule: "shape:mapbox", prefixes: &["sk.eyJ", "tk.eyJ"], alphabet: dotted, length: 60..LONG, also: has_digit },
    PrefixShape { rule: "shape:teams", prefixes: &["webhook.office.com/webhookb2/"], alphabet: address, length: 80..512, also: has_digit },
    PrefixShape { rule: "shape:mongodb", prefixes: &["mdb_sa_sk_"], alphabet: word, length: 30..64, also: has_digit },
    PrefixShape { rule: "shape:neon", prefixes: &["napi_"], alphabet: alnum, length: 40..80, also: has_digit },
    PrefixShape { rule: "shape:nuget", prefixes: &["oy2"], alphabet: alnum, length: 43..44, also: has_digit },
    PrefixShape { rule: "shape:octopus", prefixes: &["API-"], alphabet: alnum, length: 25..32, also: is_loud },
    PrefixShape { rule: "shape:onesignal", prefixes: &["os_v2_app_", "os_v2_org_"], alphabet: alnum, length: 80..128, also: has_digit },
    PrefixShape { rule: "shape:plaid", prefixes: &["access-sandbox-", "access-development-", "access-production-"], alphabet: dashed, length: 36..37, also: has_digit },
    PrefixShape { rule: "shape:posthog", prefixes: &["phx_"], alphabet: alnum, length: 40..64, also: has_digit },
    PrefixShape { rule: "shape:prefect", prefixes: &["pnu_", "pnb_"], alphabet: alnum, length: 36..37, also: has_digit },
    PrefixShape { rule: "shape:readme", prefixes: &["rdme_"], alphabet: alnum, length: 60..96, also: has_digit },
    PrefixShape { rule: "shape:render", prefixes: &["rnd_"], alphabet: alnum, length: 28..48, also: is_cased },
    PrefixShape { rule: "shape:resend", prefixes: &["re_"], alphabet: word, length: 32..36, also: has_long_run },
    PrefixShape { rule: "shape:runpod", prefixes: &["rpa_"], alphabet: alnum, length: 40..64, also: has_digit },
    PrefixShape { rule: "shape:scalingo", prefixes: &["tk-us-"], alphabet: word, length: 48..49, also: has_digit },
    PrefixShape { rule: "shape:settlemint", prefixes: &["sm_aat_", "sm_pat_", "sm_sat_"], alphabet: alnum, length: 16..17, also: has_digit },
    PrefixShape { rule: "shape:shippo", prefixes: &["shippo_live_", "shippo_test_"], alphabet: hex, length: 40..41, also: has_digit },
    PrefixShape { rule: "shape:sourcegraph", prefixes: &["sgp_", "sgd_", "slk_"], alphabet: word, length: 40..80, also: has_long_run },
    PrefixShape { rule: "shape:stripe", prefixes: &["sk_prod_", "rk_prod_", "sk_org_"], alphabet: word, length: 16..256, also: has_digit },
    PrefixShape { rule: "shape:svix", prefixes: &["whsec_"], alphabet: padded, length: 24..128, also: is_cased },
    PrefixShape { rule: "shape:slack", prefixes: &["hooks.slack.com/workflows/", "hooks.slack.com/triggers/"], alphabet: slashed, length: 20..128, also: has_digit },
    PrefixShape { rule: "shape:typeform", prefixes: &["tfp_"], alphabet: dotted, length: 44..80, also: has_long_run },
    PrefixShape { rule: "shape:vercel", prefixes: &["vcp_", "vci_", "vca_", "vcr_", "vck_"], alphabet: alnum, length: 24..96, also: is_cased },
    PrefixShape { rule: "shape:wakatime", prefixes: &["waka_"], alphabet: dashed, length: 36..37, also: has_digit },
    PrefixShape { rule: "shape:yandex", prefixes: &["AQVN"], alphabet: word, length: 35..40, also: is_cased },
    PrefixShape { rule: "shape:yandex", prefixes: &["t1.9eu"], alphabet: dotted, length: 80..LONG, also: has_digit },
    PrefixShape { rule: "shape:zuplo", prefixes: &["zpka_"], alphabet: word, length: 32..96, also: has_digit },
    PrefixShape { rule: "shape:trello", prefixes: &["ATTA"], alphabet: alnum, length: 64..80, also: has_digit },
    PrefixShape { rule: "shape:together", prefixes: &["tgp_v1_"], alphabet: word, length: 40..64, also: has_digit },
    PrefixShape { rule: "shape:fireworks", prefixes: &["fw_"], alphabet: alnum, length: 22..26, also: is_cased },
    PrefixShape { rule: "shape:elevenlabs", prefixes: &["sk_"], alphabet: hex, length: 48..52, also: has_digit },
    PrefixShape { rule: "shape:langfuse", prefixes: &["sk-lf-"], alphabet: dashed, length: 36..37, also: has_digit },
    PrefixShape { rule: "shape:wandb", prefixes: &["wandb_v1_"], alphabet: word, length: 48..128, also: has_digit },
    PrefixShape { rule: "shape:apify", prefixes: &["apify_api_"], alphabet: alnum, length: 32..48, also: is_mixed },
    PrefixShape { rule: "shape:browserbase", prefixes: &["bb_live_"], alphabet: word, length: 24..48, also: has_digit },
    PrefixShape { rule: "shape:buildkite", prefixes: &["bkua_", "bkaa_", "bkct_"], alphabet: alnum, length: 40..41, also: has_digit },
    PrefixShape { rule: "shape:braintree", prefixes: &["access_token$production$", "access_token$sandbox$"], alphabet: dollars, length: 40..64, also: has_digit },
    PrefixShape { rule: "shape:contentful", prefixes: &["CFPAT-"], alphabet: word, length: 43..44, also: has_digit },
    PrefixShape { rule: "shape:deno", prefixes: &["ddp_", "ddo_", "ddw_"], alphabet: alnum, length: 36..41, also: is_mixed },
    PrefixShape { rule: "shape:honeycomb", prefixes: &["hcaik_", "hcxik_", "hcamk_", "hcxmk_"], alphabet: alnum, length: 48..80, also: has_digit },
    PrefixShape { rule: "shape:axiom", prefixes: &["xaat-", "xapt-"], alphabet: dashed, length: 36..37, also: has_digit },
    PrefixShape { rule: "shape:logfire", prefixes: &["pylf_v1_"], alphabet: word, length: 40..64, also: has_digit },
    PrefixShape { rule: "shape:pagerduty", prefixes: &["pdus+"], alphabet: word, length: 32..64, also: has_digit },
    PrefixShape { rule: "shape:xata", prefixes: &["xau_"], alphabet: alnum, length: 36..56, also: is_cased },
    PrefixShape { rule: "shape:tencent", prefixes: &["AKID"], alphabet: alnum, length: 32..49, also: is_cased },
    PrefixShape { rule: "shape:volcengine", prefixes: &["AKLT"], alphabet: alnum, length: 40..72, also: is_cased },
    PrefixShape { rule: "shape:baidu", prefixes: &["bce-v3/ALTAK-"], alphabet: path, length: 40..96, also: has_digit },
    PrefixShape { rule: "shape:checkly", prefixes: &["cu_"], alphabet: hex, length: 32..33, also: has_digit },
    PrefixShape { rule: "shape:crates-io", prefixes: &["cio"], alphabet: alnum, length: 32..33, also: is_cased },
    PrefixShape { rule: "shape:modal", prefixes: &["ak-", "as-"], alphabet: alnum, length: 22..23, also: is_cased },
    PrefixShape { rule: "shape:voyage", prefixes: &["pa-"], alphabet: word, length: 43..44, also: is_cased },
    PrefixShape { rule: "shape:brave", prefixes: &["BSA"], alphabet: word, length: 27..30, also: is_cased },
    PrefixShape { rule: "shape:anyscale", prefixes: &["esecret_"], alphabet: alnum, length: 24..80, also: is_cased },
    PrefixShape { rule: "shape:valtown", prefixes: &["vtwn_"], alphabet: alnum, length: 24..80, also: is_cased },
    PrefixShape { rule: "shape:trigger-dev", prefixes: &["tr_dev_", "tr_prod_", "tr_stg_"], alphabet: word, length: 20..48, also: is_cased },
    PrefixShape { rule: "shape:cal", prefixes: &["cal_live_"], alphabet: hex, length: 32..33, also: has_digit },
    PrefixShape { rule: "shape:unkey", prefixes: &["unkey_"], alphabet: alnum, length: 22..48, also: is_cased },
    PrefixShape { rule: "shape:zoho", prefixes: &["1000."], alphabet: dotted, length: 65..66, also: is_mixed },
];

type Grammar = fn(&[u8], usize) -> Vec<ShapeMatch>;

/// Formats other than a prefix: the trigger, true if its case matters, and the parser.
const GRAMMARS: &[(&str, bool, Grammar)] = &[
    ("AKIA", true, aws),
    ("ASIA", true, aws),
    ("SG.", true, sendgrid),
    ("ABIA", true, aws),
    ("ACCA", true, aws),
    ("bearer ", false, bearer),
    ("ssws ", false, bearer),
    ("-us1", true, mailchimp),
    ("-us2", true, mailchimp),
    ("-us3", true, mailchimp),
    ("-us4", true, mailchimp),
    ("-us5", true, mailchimp),
    ("-us6", true, mailchimp),
    ("-us7", true, mailchimp),
    ("-us8", true, mailchimp),
    ("-us9", true, mailchimp),
    ("_mmk", true, maxmind),
    (" s.", true, vault),
    ("\ns.", true, vault),
    ("\ts.", true, vault),
    ("\"s.", true, vault),
    ("'s.", true, vault),
    ("`s.", true, vault),
    ("=s.", true, vault),
    (":s.", true, vault),
    ("(s.", true, vault),
    (">s.", true, vault),
    ("|s.", true, vault),
    ("dev.azure.com", false, azure_devops),
    ("visualstudio.com", false, azure_devops),
    ("devops", false, azure_devops),
    ("vsts", false, azure_devops),
    ("\"kty\"", true, pem::find_json_web_key),
    ("Private-Lines:", true, pem::find_putty_key),
    ("---- BEGIN SSH2", true, pem::find_ssh2_key),
    ("secret key\nRW", true, pem::find_signing_key),
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
    ("-----BEGIN", true, pem::find_from_begin),
    ("-----END", true, pem::find_from_end),
    ("eyJ", true, jwt),
    ("curl", true, login::find_curl_passwords),
    ("machine", true, login::find_netrc_password),
    (":AA", true, telegram),
    ("discord", false, discord),
    (".atlasv1.", true, terraform),
    ("7Q~", true, azure_client_secret),
    ("8Q~", true, azure_client_secret),
    ("9Q~", true, azure_client_secret),
    ("AZDO", true, marked),
    ("JQQJ99", true, marked),
    ("AzSe", true, marked),
    ("AzFu", true, marked),
    ("+ASt", true, marked),
    ("ACDb", true, marked),
    ("NRAL", true, marked),
    ("LS0tLS1CRUdJTi", true, pem::find_encoded),
    ("?code=", false, authorization_code),
    ("&code=", false, authorization_code),
    ("sensitive", true, sensitive_default),
    ("--with-token", true, commands::find_piped_secret),
    ("--password-stdin", true, commands::find_piped_secret),
    ("sudo -S", true, commands::find_piped_secret),
    ("chpasswd", true, commands::find_piped_secret),
    ("passwd --stdin", true, commands::find_piped_secret),
    ("kinit", true, commands::find_piped_secret),
    ("cryptsetup", true, commands::find_piped_secret),
    ("ssh-add", true, commands::find_piped_secret),
    ("secrets create", true, commands::find_piped_secret),
    ("secret create", true, commands::find_piped_secret),
    ("secret put", true, commands::find_piped_secret),
    ("--passphrase-fd", true, commands::find_piped_secret),
    ("context create", true, commands::find_piped_secret),
    ("identified by ", false, sql::find_password),
    ("identified with ", false, sql::find_password),
    ("password '", false, sql::find_password),
    ("password for ", false, sql::find_password),
    ("sp_addlogin", false, sql::find_password),
    ("insert into ", false, sql::find_inserted),
    ("basicauth(", false, logins::find_in_call),
    ("auth=(", false, logins::find_in_call),
    ("login(", false, logins::find_in_call),
    ("createhmac(", false, logins::find_in_call),
    ("::add-mask::", true, logins::find_masked),
    ("bearer, ", false, bearer),
    ("signin(", false, logins::find_in_call),
    (" password ", false, logins::find_after_user),
    (":5432:", true, logins::find_pgpass),
    ("*:*:*:", true, logins::find_pgpass),
    (":thin:", true, logins::find_oracle),
    ("\tTRUE\t", true, logins::find_stored_cookie),
    ("\tFALSE\t", true, logins::find_stored_cookie),
    ("?key=", false, authorization_code),
    ("&key=", false, authorization_code),
    ("?jwt=", false, authorization_code),
    ("&jwt=", false, authorization_code),
    ("?sid=", false, authorization_code),
    ("&sid=", false, authorization_code),
    ("?session=", false, authorization_code),
    ("&session=", false, authorization_code),
    ("?sessionid=", false, authorization_code),
    ("&sessionid=", false, authorization_code),
    ("?ticket=", false, authorization_code),
    ("&ticket=", false, authorization_code),
    ("kind: Secret", true, logins::find_kubernetes_secret),
];

/// Tokens without a prefix that contain a fixed text: the text, the length before it, and the length after it.
const MARKED: &[(&str, &str, usize, usize)] = &[
    ("shape:azure", "AZDO", 76, 4),
    ("shape:azure", "JQQJ99", 52, 26),
    ("shape:azure", "AzSe", 42, 6),
    ("shape:azure", "AzFu", 44, 8),
    ("shape:azure", "+ASt", 76, 8),
    ("shape:azure", "ACDb", 76, 8),
    ("shape:newrelic", "NRAL", 36, 0),
];

/// A trigger and its row.
#[derive(Clone, Copy)]
pub(super) struct Trigger {
    text: &'static str,
    row: ShapeRow,
}

#[derive(Clone, Copy)]
enum ShapeRow {
    PrefixShape(&'static PrefixShape),
    Grammar { exact: bool, grammar: Grammar },
    Command,
}

/// Returns the triggers of all shapes.
pub(super) fn triggers() -> Vec<Trigger> {
    let prefixed = PREFIX_SHAPES.iter().flat_map(|row| {
        row.prefixes.iter().map(move |text| Trigger { text, row: ShapeRow::PrefixShape(row) })
    });
    let grammars = GRAMMARS
        .iter()
        .map(|&(text, exact, grammar)| Trigger { text, row: ShapeRow::Grammar { exact, grammar } });
    let commands = commands::programs().into_iter().map(|text| Trigger { text, row: ShapeRow::Command });
    prefixed.chain(grammars).chain(commands).collect()
}

impl Trigger {
    /// Returns the text of the trigger, which matches in any case.
    pub(super) fn text(&self) -> &'static str {
        self.text
    }

    /// Returns true if a secret may continue with `byte` after the trigger.
    pub(super) fn may_continue_with(&self, byte: u8) -> bool {
        match self.row {
            ShapeRow::PrefixShape(row) => (row.alphabet)(byte),
            // A token continues with a character of its alphabet, which leaves fewer triggers to try.
            ShapeRow::Grammar { .. } if self.text == "://" => byte > b' ',
            ShapeRow::Grammar { .. } if self.text.ends_with("s.") => alnum(byte),
            ShapeRow::Command => commands::may_continue_with(byte),
            ShapeRow::Grammar { .. } => dotted(byte) || matches!(byte, b'~' | b' ' | b'"' | b'\''),
        }
    }

    /// Returns true if a secret cannot follow a letter, a digit, a dash or an underscore.
    pub(super) fn starts_word(&self) -> bool {
        match self.row {
            ShapeRow::PrefixShape(_) => is_short(self.text),
            ShapeRow::Command => true,
            ShapeRow::Grammar { .. } => false,
        }
    }

    /// Finds the secrets at `at`, where the trigger's text is in any case.
    pub(super) fn find(&self, text: &[u8], at: usize) -> Vec<ShapeMatch> {
        let exact = text[at..].starts_with(self.text.as_bytes());
        let found = match self.row {
            ShapeRow::PrefixShape(row) if exact => row.find(text, at, self.text).into_iter().collect(),
            ShapeRow::Command if exact => commands::find_passwords(text, at),
            ShapeRow::Grammar { exact: wanted, grammar } if exact || !wanted => grammar(text, at),
            _ => Vec::new(),
        };
        // A text with a placeholder is redacted already.
        found.into_iter().filter(|shaped| placeholder::find(&text[shaped.range.clone()]).is_none()).collect()
    }
}

fn is_short(prefix: &str) -> bool {
    prefix.len() < 6
}

impl PrefixShape {
    fn find(&self, text: &[u8], at: usize, prefix: &str) -> Option<ShapeMatch> {
        // A short prefix must start a word. A long one may also follow a dash.
        let clear = !before(text, at).is_some_and(|byte| alnum(byte) || (is_short(prefix) && word(byte)));
        let start = at + prefix.len();
        let rest = clear.then(|| run(text, start, self.alphabet))?;
        let cut_off = text.get(rest.end).is_some_and(|&byte| alnum(byte));
        let fits = self.length.contains(&rest.len()) && !cut_off && (self.also)(&text[rest.clone()]);
        fits.then(|| ShapeMatch::new(self.rule, at..rest.end))
    }
}

/// Finds an access key id, and the secret access key near it.
fn aws(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let id = run(text, at, |byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    if before(text, at).is_some_and(alnum)
        || id.len() != 20
        || examples::is_aws_example(&text[id.clone()])
        || text.get(id.end).is_some_and(|&byte| alnum(byte))
    {
        return Vec::new();
    }
    let mut found = vec![ShapeMatch::new("shape:aws", id.clone())];
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
            found.push(ShapeMatch::new("shape:aws", key.clone()));
        }
        from = key.end + 1;
    }
    found
}

/// Finds a key of Mailchimp: 32 digits and its data centre, which is the trigger.
fn mailchimp(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let end = run(text, at + "-us".len(), |byte| byte.is_ascii_digit()).end;
    let key = text[..at].iter().rev().take(33).take_while(|byte| hex(**byte)).count();
    let fits = key == 32 && end <= at + "-us00".len() && !text.get(end).is_some_and(|&byte| word(byte));
    Vec::from_iter(
        (fits && is_mixed(&text[at - key..at])).then(|| ShapeMatch::new("shape:mailchimp", at - key..end)),
    )
}

/// Finds a license key of MaxMind: 36 characters before its end.
fn maxmind(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let key = text[..at].iter().rev().take(37).take_while(|byte| alnum(**byte) || **byte == b'_').count();
    let fits = key == 36 && is_mixed(&text[at - key..at]);
    Vec::from_iter(fits.then(|| ShapeMatch::new("shape:maxmind", at - key..at + "_mmk".len())))
}

/// Finds an old token of Vault: `s.` and 24 characters, after a character that cannot be in a name.
fn vault(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let token = run(text, at + " s.".len(), alnum);
    let behind = text.get(token.end).copied();
    // A namespace may follow.
    let is_end = !behind.is_some_and(|byte| matches!(byte, b'(' | b'[' | b'_'));
    let fits = token.len() == 24 && is_end && is_cased(&text[token.clone()]);
    Vec::from_iter(fits.then(|| ShapeMatch::new("shape:vault", at + 1..token.end)))
}

/// Finds the old tokens of Azure DevOps near its name: 52 characters of base32 in lower case.
fn azure_devops(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    const NEAR: usize = 256;
    let (start, end) = (at.saturating_sub(NEAR), text.len().min(at + NEAR));
    let is_part = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'2'..=b'7');
    let mut found = Vec::new();
    let mut from = start;
    while from < end {
        let token = run(text, from, is_part);
        let clear = !before(text, token.start).is_some_and(word)
            && !text.get(token.end).is_some_and(|&byte| word(byte));
        if token.len() == 52
            && clear
            && text[token.clone()].iter().filter(|byte| byte.is_ascii_digit()).count() > 2
        {
            found.push(ShapeMatch::new("shape:azure", token.clone()));
        }
        from = token.end + 1;
    }
    found
}

/// Finds a token of [`MARKED`] around its text.
fn marked(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let is_part = |byte: u8| alnum(byte) || matches!(byte, b'+' | b'/' | b'=' | b'-' | b'_');
    let mut found = Vec::new();
    for (rule, mark, ahead, behind) in MARKED.iter().filter(|row| text[at..].starts_with(row.1.as_bytes())) {
        let (Some(start), end) = (at.checked_sub(*ahead), at + mark.len() + behind) else { continue };
        let Some(token) = text.get(start..end) else { continue };
        let clear =
            !before(text, start).is_some_and(is_part) && !text.get(end).is_some_and(|&byte| is_part(byte));
        if clear && token.iter().all(|&byte| is_part(byte)) && is_mixed(token) {
            found.push(ShapeMatch::new(rule, start..end));
        }
    }
    found
}

/// Finds the token of a Telegram bot: its id, a colon, and 35 characters.
fn telegram(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let id = text[..at].iter().rev().take(12).take_while(|byte| byte.is_ascii_digit()).count();
    let token = run(text, at + 1, word);
    let fits = (8..=11).contains(&id) && (34..=36).contains(&token.len()) && is_mixed(&text[token.clone()]);
    Vec::from_iter(fits.then(|| ShapeMatch::new("shape:telegram", at - id..token.end)))
}

/// Finds the tokens of bots near the word `discord`: an id in base64, a time and a signature. They have no prefix.
fn discord(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    const NEAR: usize = 512;
    let end = text.len().min(at + NEAR);
    let mut found = Vec::new();
    for dot in memchr::memchr_iter(b'.', &text[at..end]).map(|dot| at + dot) {
        let id = text[..dot].iter().rev().take(32).take_while(|byte| word(**byte)).count();
        let signature = run(text, dot + 8, word);
        let is_id = (23..=28).contains(&id) && matches!(text[dot - id], b'M' | b'N' | b'O');
        let is_time = text.get(dot + 7) == Some(&b'.') && run(text, dot + 1, word).end == dot + 7;
        if is_id && is_time && (27..=45).contains(&signature.len()) {
            found.push(ShapeMatch::new("shape:discord", dot - id..signature.end));
        }
    }
    found
}

/// Finds a token of HCP Terraform: 14 characters, `.atlasv1.`, and more than 60 characters.
fn terraform(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let id = text[..at].iter().rev().take(15).take_while(|byte| alnum(**byte)).count();
    let token = run(text, at + ".atlasv1.".len(), word);
    let fits = id == 14 && token.len() >= 60;
    Vec::from_iter(fits.then(|| ShapeMatch::new("shape:terraform", at - id..token.end)))
}

/// Finds a client secret of Microsoft Entra: three characters, `8Q~`, and 31 to 34 characters.
fn azure_client_secret(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let is_part = |byte: u8| word(byte) || matches!(byte, b'.' | b'~');
    let lead = text[..at].iter().rev().take(4).take_while(|byte| is_part(**byte)).count();
    let token = run(text, at + 3, is_part);
    let fits = lead == 3 && (31..=34).contains(&token.len()) && is_mixed(&text[token.clone()]);
    Vec::from_iter(fits.then(|| ShapeMatch::new("shape:azure", at - lead..token.end)))
}

fn sendgrid(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let first = run(text, at + 3, word);
    if before(text, at).is_some_and(word) || first.len() < 16 || text.get(first.end) != Some(&b'.') {
        return Vec::new();
    }
    let second = run(text, first.end + 1, word);
    if second.len() < 16 { Vec::new() } else { vec![ShapeMatch::new("shape:sendgrid", at..second.end)] }
}

fn bearer(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let scheme = run(text, at, alnum);
    let gap = run(text, scheme.end, |byte| matches!(byte, b' ' | b','));
    let token = run(text, gap.end, |byte| word(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'='));
    let value = &text[token.clone()];
    let looks = value.len() >= 16 && is_mixed(value) && !before(text, at).is_some_and(alnum);
    if looks { vec![ShapeMatch::new("shape:bearer", token)] } else { Vec::new() }
}

fn basic(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let token = run(text, at + "basic ".len(), |byte| word(byte) || matches!(byte, b'+' | b'/' | b'='));
    match decode_basic(&text[token.clone()]) {
        Some(secret) if !before(text, at).is_some_and(alnum) => {
            vec![ShapeMatch { rule: "shape:basic", range: token, secret: Some(secret) }]
        }
        _ => Vec::new(),
    }
}

/// Decodes Basic credentials to `user:password`.
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

/// Finds the password in a URL, or a token in place of the user.
fn userinfo(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let start = at + "://".len();
    let authority = run(text, start, |byte| {
        !matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\' | b'|') && byte > b' '
    });
    let authority = start..authority.end.min(start + 4096);
    let at_sign = memchr::memrchr(b'@', &text[authority.clone()]).map(|at| start + at);
    let Some(end) = at_sign.or_else(|| end_of_unescaped_password(text, &authority)) else {
        return Vec::new();
    };
    let secret = match memchr::memchr(b':', &text[start..end]) {
        Some(colon) => start + colon + 1..end,
        None if end - start >= 16 && is_mixed(&text[start..end]) => start..end,
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
    vec![ShapeMatch::new("shape:url-userinfo", secret)]
}

/// Finds the signature of a signed URL, after the name of its parameter.
fn signature(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let Some(sign) = memchr::memchr(b'=', &text[at..]) else { return Vec::new() };
    let value = run(text, at + sign + 1, |byte| encoded(byte) || matches!(byte, b'.' | b'~'));
    let looks = value.len() >= 16 && is_mixed(&text[value.clone()]);
    if looks { vec![ShapeMatch::new("shape:signature", value)] } else { Vec::new() }
}

/// Finds the code of an OAuth login in the address that the provider redirects to.
fn authorization_code(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let Some(sign) = memchr::memchr(b'=', &text[at..]) else { return Vec::new() };
    let code = run(text, at + sign + 1, |byte| encoded(byte) || matches!(byte, b'.' | b'~'));
    let value = &text[code.clone()];
    let is_code = code.len() >= 16 && is_mixed(value) && (sign == "?code".len() || looks::is_random(value));
    Vec::from_iter(is_code.then(|| ShapeMatch::new("shape:oauth-code", code)))
}

/// Finds the default value of a sensitive variable in HCL: `variable "x" { default = "…" sensitive = true }`.
fn sensitive_default(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    const NEAR: usize = 1 << 10;
    let sign = run(text, at + "sensitive".len(), |byte| byte == b' ').end;
    let is_true =
        text[sign..].strip_prefix(b"=").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"true"));
    let near = at.saturating_sub(NEAR);
    let Some(open) = memchr::memrchr(b'{', &text[near..at]).filter(|_| is_true) else { return Vec::new() };
    let block = near + open..at + memchr::memchr(b'}', &text[at..text.len().min(at + NEAR)]).unwrap_or(0);
    if !text[..block.start].trim_ascii_end().ends_with(b"\"") {
        return Vec::new();
    }
    let value =
        hcl_default(text, &block).map(|start| run(text, start, |byte| !matches!(byte, b'"' | b'\\' | b'\n')));
    let is_secret =
        |value: &Range<usize>| value.len() >= 4 && !examples::is_placeholder_text(&text[value.clone()]);
    Vec::from_iter(value.filter(is_secret).map(|value| ShapeMatch::new("shape:hcl-default", value)))
}

/// Returns the end of a password that contains an unescaped slash.
fn end_of_unescaped_password(text: &[u8], authority: &Range<usize>) -> Option<usize> {
    let colon = authority.start + memchr::memchr(b':', &text[authority.clone()])?;
    let rest = run(text, colon + 1, encoded);
    let is_end = text.get(rest.end) == Some(&b'@') && text.get(rest.end + 1).is_some_and(|&byte| alnum(byte));
    (is_end && rest.len() >= 16 && looks::is_random(&text[rest.clone()])).then_some(rest.end)
}

fn jwt(text: &[u8], at: usize) -> Vec<ShapeMatch> {
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
    if parts >= 3 || (parts == 2 && claims) {
        vec![ShapeMatch::new("shape:jwt", at..end)]
    } else {
        Vec::new()
    }
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

/// Base64, also in a URL.
fn encoded(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'+' | b'/' | b'=' | b'-' | b'_')
}

fn dotted(byte: u8) -> bool {
    word(byte) || byte == b'.'
}

fn path(byte: u8) -> bool {
    word(byte) || byte == b'/'
}

fn address(byte: u8) -> bool {
    path(byte) || byte == b'@'
}

fn dollars(byte: u8) -> bool {
    alnum(byte) || byte == b'$'
}

/// Base64 in both alphabets, with padding.
fn padded(byte: u8) -> bool {
    word(byte) || matches!(byte, b'+' | b'/' | b'=')
}

fn slashed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'/'
}

fn hex(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'a'..=b'f')
}

fn always(_: &[u8]) -> bool {
    true
}

fn has_digit(rest: &[u8]) -> bool {
    rest.iter().any(u8::is_ascii_digit)
}

/// Returns true if there are digits and letters of both cases.
fn is_cased(rest: &[u8]) -> bool {
    has_digit(rest) && rest.iter().any(u8::is_ascii_uppercase) && rest.iter().any(u8::is_ascii_lowercase)
}

/// Returns true if there are digits and capitals only.
fn is_loud(rest: &[u8]) -> bool {
    is_mixed(rest) && !rest.iter().any(u8::is_ascii_lowercase)
}

fn has_dot_at_14(rest: &[u8]) -> bool {
    rest[14] == b'.' && has_digit(&rest[15..])
}

/// Returns true if there is a long mixed run without dashes. Words joined by dashes have none.
fn has_long_run(rest: &[u8]) -> bool {
    rest.split(|&byte| !alnum(byte)).any(|piece| piece.len() >= 16 && is_mixed(piece))
}
