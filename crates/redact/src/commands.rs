//! Passwords in the arguments of known commands, such as `sshpass -p …` or `mysql -p…`.

use std::ops::Range;

use super::examples::is_placeholder_text;
use super::login::{LONGEST, command_end, is_gap, value, word};
use super::names;
use super::runs::{ShapeMatch, before, run};

const RULE: &str = "shape:command-option";
const SHORTEST: usize = 4;

/// A command and the position of its password.
struct KnownCommand {
    program: &'static str,
    /// A word that the command must contain.
    subcommand: &'static str,
    password: PasswordPosition,
}

enum PasswordPosition {
    /// The word after one of these options.
    After(&'static [&'static str]),
    /// The word after this option, which must be the first one.
    First(&'static str),
    /// The rest of a word that starts with this option.
    Attached(&'static str),
    /// The last word, if an option contains the letter `b`.
    Last,
    /// The word after a secret name.
    Setting,
    /// The word with this index that is no option, counted from 0.
    Word(usize),
    /// The value of each `NAME=value`.
    Assigned,
    /// The text after this character in the word after one of these options: `user%password`.
    Behind(u8, &'static [&'static str]),
    /// The text after this one in any word: `/p:password`.
    Text(&'static str),
}

use PasswordPosition::{After, Assigned, Attached, Behind, First, Last, Setting, Text, Word};

#[rustfmt::skip]
const COMMANDS: &[KnownCommand] = &[
    KnownCommand { program: "mysql", subcommand: "", password: Attached("-p") },
    KnownCommand { program: "mariadb", subcommand: "", password: Attached("-p") },
    KnownCommand { program: "sshpass", subcommand: "", password: First("-p") },
    KnownCommand { program: "sshpass", subcommand: "", password: Attached("-p") },
    KnownCommand { program: "docker", subcommand: "login", password: After(&["-p"]) },
    KnownCommand { program: "podman", subcommand: "login", password: After(&["-p"]) },
    KnownCommand { program: "helm", subcommand: "login", password: After(&["-p"]) },
    KnownCommand { program: "az login", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "redis-cli", subcommand: "", password: After(&["-a", "--pass"]) },
    KnownCommand { program: "sqlcmd", subcommand: "", password: After(&["-P"]) },
    KnownCommand { program: "ldapsearch", subcommand: "", password: After(&["-w"]) },
    KnownCommand { program: "ldapmodify", subcommand: "", password: After(&["-w"]) },
    KnownCommand { program: "ldapadd", subcommand: "", password: After(&["-w"]) },
    KnownCommand { program: "ldapdelete", subcommand: "", password: After(&["-w"]) },
    KnownCommand { program: "ldapwhoami", subcommand: "", password: After(&["-w"]) },
    KnownCommand { program: "htpasswd", subcommand: "", password: Last },
    KnownCommand { program: "docker", subcommand: "login", password: Attached("-p") },
    KnownCommand { program: "az acr login", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "ldappasswd", subcommand: "", password: After(&["-w", "-s", "-a"]) },
    KnownCommand { program: "redis-cli", subcommand: "AUTH", password: Behind(b' ', &["AUTH"]) },
    KnownCommand { program: "mysqladmin", subcommand: "password", password: After(&["password"]) },
    KnownCommand { program: "skopeo", subcommand: "", password: Behind(b':', &["--creds", "--src-creds", "--dest-creds"]) },
    KnownCommand { program: "http", subcommand: "", password: Behind(b':', &["-a", "--auth"]) },
    KnownCommand { program: "https", subcommand: "", password: Behind(b':', &["-a", "--auth"]) },
    KnownCommand { program: "transmission-remote", subcommand: "", password: Behind(b':', &["-n", "--auth"]) },
    KnownCommand { program: "smbclient", subcommand: "", password: Behind(b'%', &["-U", "--user"]) },
    KnownCommand { program: "winexe", subcommand: "", password: Behind(b'%', &["-U", "--user"]) },
    KnownCommand { program: "rpcclient", subcommand: "", password: Behind(b'%', &["-U", "--user"]) },
    KnownCommand { program: "lftp", subcommand: "", password: Behind(b',', &["-u", "--user"]) },
    KnownCommand { program: "sqlplus", subcommand: "", password: Text("/") },
    KnownCommand { program: "expdp", subcommand: "", password: Text("/") },
    KnownCommand { program: "impdp", subcommand: "", password: Text("/") },
    KnownCommand { program: "sqlldr", subcommand: "", password: Text("/") },
    KnownCommand { program: "xfreerdp", subcommand: "", password: Text("/p:") },
    KnownCommand { program: "openssl", subcommand: "", password: Text("pass:") },
    KnownCommand { program: "openssl", subcommand: "enc", password: After(&["-k"]) },
    KnownCommand { program: "signtool", subcommand: "sign", password: After(&["/p"]) },
    KnownCommand { program: "certutil", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "impacket-", subcommand: "", password: Text(":") },
    KnownCommand { program: "cargo login", subcommand: "", password: Word(0) },
    KnownCommand { program: "vault login", subcommand: "", password: Word(0) },
    KnownCommand { program: "wandb login", subcommand: "", password: Word(0) },
    KnownCommand { program: "snyk auth", subcommand: "", password: Word(0) },
    KnownCommand { program: "ngrok authtoken", subcommand: "", password: Word(0) },
    KnownCommand { program: "ngrok config add-authtoken", subcommand: "", password: Word(0) },
    KnownCommand { program: "heroku auth:token", subcommand: "", password: Word(0) },
    KnownCommand { program: "nuget setapikey", subcommand: "", password: Word(0) },
    KnownCommand { program: "rclone obscure", subcommand: "", password: Word(0) },
    KnownCommand { program: "ConvertTo-SecureString", subcommand: "", password: Word(0) },
    KnownCommand { program: "ConvertTo-SecureString", subcommand: "", password: After(&["-String"]) },
    KnownCommand { program: "wpa_passphrase", subcommand: "", password: Word(1) },
    KnownCommand { program: "rabbitmqctl add_user", subcommand: "", password: Word(1) },
    KnownCommand { program: "rabbitmqctl change_password", subcommand: "", password: Word(1) },
    KnownCommand { program: "cf auth", subcommand: "", password: Word(1) },
    KnownCommand { program: "bw login", subcommand: "", password: Word(1) },
    KnownCommand { program: "net user", subcommand: "", password: Word(1) },
    KnownCommand { program: "drush user:password", subcommand: "", password: Word(1) },
    KnownCommand { program: "net use", subcommand: "/user", password: Word(2) },
    KnownCommand { program: "mc alias set", subcommand: "", password: Word(3) },
    KnownCommand { program: "reset-admin-password", subcommand: "", password: Word(0) },
    KnownCommand { program: "poetry config http-basic", subcommand: "", password: Word(1) },
    KnownCommand { program: "poetry config pypi-token", subcommand: "", password: Word(0) },
    KnownCommand { program: "composer config github-oauth", subcommand: "", password: Word(0) },
    KnownCommand { program: "bundle config", subcommand: "", password: Text(":") },
    KnownCommand { program: "npm config set", subcommand: "", password: Setting },
    KnownCommand { program: "pnpm config set", subcommand: "", password: Setting },
    KnownCommand { program: "yarn config set", subcommand: "", password: Setting },
    KnownCommand { program: "user-secrets set", subcommand: "", password: Setting },
    KnownCommand { program: "secrets set", subcommand: "", password: Assigned },
    KnownCommand { program: "vault kv put", subcommand: "", password: Assigned },
    KnownCommand { program: "vault write", subcommand: "", password: Assigned },
    KnownCommand { program: "create secret generic", subcommand: "--from-literal", password: Assigned },
    KnownCommand { program: "secret set", subcommand: "", password: After(&["--body", "-b"]) },
    KnownCommand { program: "keyvault secret set", subcommand: "", password: After(&["--value"]) },
    KnownCommand { program: "put-parameter", subcommand: "SecureString", password: After(&["--value"]) },
    KnownCommand { program: "nerdctl", subcommand: "login", password: After(&["-p"]) },
    KnownCommand { program: "buildah", subcommand: "login", password: After(&["-p"]) },
    KnownCommand { program: "skopeo", subcommand: "login", password: After(&["-p"]) },
    KnownCommand { program: "oras", subcommand: "login", password: After(&["-p"]) },
    KnownCommand { program: "crane", subcommand: "login", password: After(&["-p"]) },
    KnownCommand { program: "oc login", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "cf login", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "ibmcloud login", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "jira login", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "tabcmd login", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "twine upload", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "mongo", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "cqlsh", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "beeline", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "hdbsql", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "snowsql", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "rdesktop", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "psexec", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "evil-winrm", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "crackmapexec", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "netexec", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "ncftp", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "rabbitmqadmin", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "airflow users create", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "create-admin", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "useradd", subcommand: "", password: After(&["-p"]) },
    KnownCommand { program: "bcp", subcommand: "", password: After(&["-P"]) },
    KnownCommand { program: "isql", subcommand: "", password: After(&["-P"]) },
    KnownCommand { program: "ipmitool", subcommand: "", password: After(&["-P"]) },
    KnownCommand { program: "mosquitto_pub", subcommand: "", password: After(&["-P"]) },
    KnownCommand { program: "mosquitto_sub", subcommand: "", password: After(&["-P"]) },
    KnownCommand { program: "zip", subcommand: "", password: After(&["-P"]) },
    KnownCommand { program: "unzip", subcommand: "", password: After(&["-P"]) },
    KnownCommand { program: "createuser", subcommand: "", password: After(&["-P"]) },
    KnownCommand { program: "ssh-keygen", subcommand: "", password: After(&["-N", "-P"]) },
    KnownCommand { program: "snmpwalk", subcommand: "", password: After(&["-A", "-X"]) },
    KnownCommand { program: "snmpget", subcommand: "", password: After(&["-A", "-X"]) },
    KnownCommand { program: "snmpset", subcommand: "", password: After(&["-A", "-X"]) },
    KnownCommand { program: "vercel", subcommand: "", password: After(&["-t"]) },
    KnownCommand { program: "doctl", subcommand: "", password: After(&["-t"]) },
    KnownCommand { program: "codecov", subcommand: "", password: After(&["-t"]) },
    KnownCommand { program: "influx auth", subcommand: "", password: After(&["-t"]) },
    KnownCommand { program: "nuget push", subcommand: "", password: After(&["-k", "-ApiKey"]) },
    KnownCommand { program: "choco", subcommand: "apikey", password: After(&["-k"]) },
    KnownCommand { program: "kaggle", subcommand: "", password: After(&["-k"]) },
    KnownCommand { program: "keytool", subcommand: "", password: After(&["-storepass", "-keypass", "-srcstorepass", "-deststorepass"]) },
    KnownCommand { program: "jarsigner", subcommand: "", password: After(&["-storepass", "-keypass"]) },
    KnownCommand { program: "7z a", subcommand: "", password: Attached("-p") },
    KnownCommand { program: "7z x", subcommand: "", password: Attached("-p") },
    KnownCommand { program: "7za", subcommand: "", password: Attached("-p") },
    KnownCommand { program: "rar", subcommand: "", password: Attached("-p") },
    KnownCommand { program: "rar", subcommand: "", password: Attached("-hp") },
    KnownCommand { program: "mosquitto_passwd", subcommand: "", password: Last },
    KnownCommand { program: "aws configure set", subcommand: "", password: Setting },
];

/// Returns the programs, each of which is a trigger.
pub(super) fn programs() -> Vec<&'static str> {
    let mut programs: Vec<_> = COMMANDS.iter().map(|command| command.program).collect();
    programs.dedup();
    programs
}

/// Returns true if a command may continue with `byte` after a program with a name of three letters.
pub(super) fn may_continue_with(byte: u8) -> bool {
    is_gap(byte) || byte.is_ascii_digit() || matches!(byte, b'.' | b'-')
}

/// Finds the passwords in the arguments of the command at `at`.
pub(super) fn find_passwords(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let rows = COMMANDS.iter().filter(|row| text[at..].starts_with(row.program.as_bytes()));
    let mut found = Vec::new();
    for row in rows {
        let start =
            run(text, at + row.program.len(), |byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
                .end;
        let is_command = !before(text, at)
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            && text.get(start).is_some_and(|&byte| is_gap(byte) && byte != b'\n');
        if !is_command {
            continue;
        }
        let end = start + command_end(&text[start..text.len().min(start + LONGEST)]);
        let arguments = &text[start..end];
        if memchr::memmem::find(arguments, row.subcommand.as_bytes()).is_some() {
            let passwords =
                row.find(text, start..end).into_iter().filter(|range| is_password(&text[range.clone()]));
            found.extend(passwords.map(|range| ShapeMatch::new(RULE, range)));
        }
    }
    found
}

impl KnownCommand {
    fn find(&self, text: &[u8], arguments: Range<usize>) -> Vec<Range<usize>> {
        let text = &text[..arguments.end];
        let mut options = options(text, &arguments);
        let is = |option: &Range<usize>, names: &[&str]| {
            names.iter().any(|name| name.as_bytes() == &text[option.clone()])
        };
        match self.password {
            After(names) => words(text, &arguments)
                .filter(|word| is(word, names))
                .map(|word| value(text, word.end))
                .chain(options.filter(|option| is(option, names)).map(|option| value(text, option.end)))
                .collect(),
            Word(index) => {
                let plain = |word: &Range<usize>| !matches!(text[word.start], b'-' | b'<' | b'|' | b'/');
                Vec::from_iter(words(text, &arguments).filter(plain).nth(index))
            }
            Assigned => {
                let assigned = |word: Range<usize>| {
                    let sign = word.start
                        + memchr::memrchr(
                            b'=',
                            text[word.clone()].strip_suffix(b"=").unwrap_or(&text[word.clone()]),
                        )?;
                    Some(sign + 1..word.end)
                };
                words(text, &arguments).filter_map(assigned).collect()
            }
            Behind(separator, names) => {
                let behind = |word: Range<usize>| {
                    let value = value(text, word.end);
                    let at = memchr::memchr(separator, &text[value.clone()]);
                    if separator == b' ' { Some(value) } else { at.map(|at| value.start + at + 1..value.end) }
                };
                let named = words(text, &arguments).filter(|word| {
                    names.iter().any(|name| {
                        text[word.clone()].strip_prefix(name.as_bytes()).is_some_and(|rest| rest.is_empty())
                    })
                });
                let glued = words(text, &arguments).filter_map(|word| {
                    let name = names.iter().find(|name| {
                        text[word.clone()]
                            .strip_prefix(name.as_bytes())
                            .is_some_and(|rest| rest.starts_with(b"="))
                    })?;
                    Some(word.start..word.start + name.len())
                });
                named.chain(glued).filter_map(behind).collect()
            }
            Text(mark) => {
                let behind = |word: Range<usize>| {
                    let at = memchr::memmem::find(&text[word.clone()], mark.as_bytes())?;
                    let start = word.start + at + mark.len();
                    let end = memchr::memchr(b'@', &text[start..word.end]).map_or(word.end, |at| start + at);
                    let is_login = match mark {
                        "/" => at > 0 && end < word.end,
                        _ => text.get(start) != Some(&b'/'),
                    };
                    is_login.then_some(start..end)
                };
                words(text, &arguments).filter_map(behind).collect()
            }
            First(name) => {
                let between = |option: &Range<usize>| {
                    text[arguments.start..option.start].iter().all(|&byte| is_gap(byte) || byte == b',')
                };
                let first = options.next().filter(|option| is(option, &[name]) && between(option));
                Vec::from_iter(first.map(|option| value(text, option.end)))
            }
            Attached(name) => {
                let attached = options.filter(|option| text[option.start..].starts_with(name.as_bytes()));
                attached.map(|option| attached_value(text, option.start + name.len())).collect()
            }
            Last => {
                let is_batch =
                    options.any(|option| text[option.start + 1] != b'-' && text[option].contains(&b'b'));
                let end = text.iter().rposition(|&byte| !is_gap(byte)).map_or(0, |last| last + 1);
                let length = text[arguments.start..end.max(arguments.start)]
                    .iter()
                    .rev()
                    .take_while(|byte| !is_gap(**byte))
                    .count();
                Vec::from_iter(is_batch.then(|| end - length..end))
            }
            Setting => {
                let name = value(text, arguments.start);
                let is_secret = names::family(&text[name.clone()]).is_some();
                Vec::from_iter(is_secret.then(|| value(text, name.end)))
            }
        }
    }
}

/// Finds the secret that `echo` writes to the standard input of a command with the option at `at`.
pub(super) fn find_piped_secret(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let line = memchr::memrchr(b'\n', &text[at.saturating_sub(LONGEST)..at]).map_or(0, |newline| newline + 1);
    let start = at.saturating_sub(LONGEST) + line;
    let line = &text[start..at];
    let printed = ["echo ", "printf "].iter().filter_map(|print| {
        memchr::memmem::rfind(line, print.as_bytes()).map(|found| start + found + print.len() - 1)
    });
    let Some(printed) = printed.max() else { return find_here_string(text, at) };
    let is_option = |word: &Range<usize>| matches!(text[word.start], b'-' | b'%');
    let Some(secret) = words(text, &(printed..at)).find(|word| !is_option(word)) else { return Vec::new() };
    let secret = match before(text, secret.start) {
        Some(quote @ (b'"' | b'\'')) => run(&text[..at], secret.start, |byte| byte != quote && byte != b'\n'),
        _ => secret,
    };
    let is_piped = memchr::memchr(b'|', &text[secret.end..at]).is_some();
    password_of(text, secret)
        .filter(|_| is_piped)
        .into_iter()
        .map(|secret| ShapeMatch::new(RULE, secret))
        .collect()
}

/// Finds the secret in `<<< secret` after a command that reads one.
fn find_here_string(text: &[u8], at: usize) -> Vec<ShapeMatch> {
    let end = at + command_end(&text[at..text.len().min(at + LONGEST)]);
    let Some(mark) = memchr::memmem::find(&text[at..end], b"<<<") else { return Vec::new() };
    let secret = value(&text[..end], at + mark + "<<<".len());
    password_of(text, secret).into_iter().map(|secret| ShapeMatch::new(RULE, secret)).collect()
}

/// Returns the password of `user:password`, or the whole word.
fn password_of(text: &[u8], secret: Range<usize>) -> Option<Range<usize>> {
    let colon = memchr::memchr(b':', &text[secret.clone()]).filter(|_| secret.len() < 80);
    let secret = colon.map_or(secret.start, |colon| secret.start + colon + 1)..secret.end;
    is_password(&text[secret.clone()]).then_some(secret)
}

/// Iterates over the options among the arguments.
fn options<'t>(text: &'t [u8], arguments: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<'t> {
    let start = arguments.start;
    memchr::memchr_iter(b'-', &text[start..]).map(move |dash| start + dash).filter_map(move |dash| {
        let is_option = is_gap(text[dash - 1]);
        is_option.then(|| run(text, dash, |byte| byte.is_ascii_alphanumeric() || byte == b'-'))
    })
}

/// Iterates over the words among the arguments.
fn words<'t>(text: &'t [u8], arguments: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<'t> {
    let (mut at, end) = (arguments.start, arguments.end);
    std::iter::from_fn(move || {
        let start = run(&text[..end], at, |byte| is_gap(byte) || byte == b',').end;
        let found = word(&text[..end], start);
        at = found.end + 1;
        (!found.is_empty()).then_some(found)
    })
}

fn attached_value(text: &[u8], start: usize) -> Range<usize> {
    match text.get(start) {
        Some(&quote @ (b'"' | b'\'')) => {
            run(text, start + 1, |byte| byte != quote && byte != b'\\' && byte != b'\n')
        }
        _ => word(text, start),
    }
}

fn is_password(value: &[u8]) -> bool {
    let is_number = value.len() < 6 && value.iter().all(u8::is_ascii_digit);
    value.len() >= SHORTEST && !value.starts_with(b"-") && !is_number && !is_placeholder_text(value)
}
