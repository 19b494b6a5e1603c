//! Secrets in the columns of tables, in macros, in settings of infrastructure, and in addresses of a login.

use super::logins::check;
use super::*;

#[test]
fn columns_with_a_secret_name() {
    for marked in [
        "name,password,role\nme,«hunter22»,admin\nyou,«Winter2024»,user\n",
        "id;user;passwd\r\n1;me;«hunter22»\r\n2;you;«tr0ub4dor&3»\r\n",
        "user\tapi_key\nme\t«Zx81kk02LLmm93pq»\n",
        "\"user\",\"password\"\n\"me\",\"«hunter22»\"\n",
        "password,user\n«hunter22»,me",
        "| user | password | note |\n|------|:--------:|------|\n| me | «hunter22» | x |\n| you | «S3cret!Word» | y |\n\nand 22 more\n",
        "user,password\nme,«swordfish»\nyou,«opensesame»\n",
        "| Username | Password |\n|---|---|\n| me | «swordfish» |\n| you | «CorrectHorse» |\n",
        "host\tlogin\tpasswd\na\tme\t«swordfish»\n",
        "| Service | API key |\n| --- | --- |\n| a | `«Zx81kk02LLmm93pq»` |\n",
    ] {
        check(marked);
    }
}

#[test]
fn macros_defaults_and_codes() {
    for marked in [
        "#define DB_PASSWORD \"«hunter22»\"\n#define PORT 22\n",
        "#define API_TOKEN \"«blueberry pie»\"\n",
        "variable \"db_password\" {\n  type    = string\n  default = \"«hunter22»\"\n}\n",
        "variable \"admin\" {\n  default   = \"«hunter22»\"\n  sensitive = true\n}\n",
        "variable \"admin\" {\n  sensitive = true\n  type = string\n  default   = \"«blueberry»\"\n}\n",
        "https://a.example/callback?code=«Zx81kk02LLmm93pqRs7t»&state=xyz",
        "GET /oauth/callback?state=xyz&code=«Zx81kk02-LLmm93pq_Rs7t» HTTP/1.1",
    ] {
        check(marked);
    }
}

#[test]
fn other_tables_stay() {
    for text in [
        "| Field | Token | Type |\n|---|---|---|\n| a | required | string |\n| b | The user's second token | number |\n",
        "| User | Password |\n|---|---|\n| me | required |\n| you | hashed |\n| other | secret |\n",
        "option,password\na,swordfish\n",
        "name,token_count,role\nme,12345678,admin\n",
        "The user, password, and role are required.\nA line, hunter22, and more\n",
        "option | password | effect\n<x> | <password> | none\n",
        "#define MAX_TOKENS 4096\n#define TOKEN_H\n#define PASSWORD_FIELD \"password\"\n",
        "variable \"region\" {\n  default = \"eu-central-1\"\n}\nvariable \"db_password\" {\n  type = string\n}\nvariable \"x\" { default = \"y\" }\n",
        "variable \"region\" {\n  default = \"eu-central-1\"\n}\nvariable \"a\" {\n  sensitive = true\n}\n",
        "https://a.example/x?code=404&lang=en and /y?country_code=1234567890abcdefgh",
    ] {
        for body in [text.to_owned(), format!("{{\"text\":\"{}\"}}", inner(text))] {
            assert_eq!(String::from_utf8_lossy(&redactor().redact_text("f", body.as_bytes()).bytes), body);
        }
    }
}
