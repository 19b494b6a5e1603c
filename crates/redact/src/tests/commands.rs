//! Passwords in command lines, also where a command is a list of strings.

use super::logins::check;
use super::*;

#[test]
fn options_of_known_commands() {
    for marked in [
        "mysql -u me -p«hunter22» db",
        "mysqldump -h h -u me -p'«horse battery»' db > x.sql",
        "$ mariadb -ume -p«Winter24» db",
        "sshpass -p «hunter22» ssh me@host",
        "sshpass -p'«hunter22»' ssh me@host",
        "docker login -u me -p «hunter22» registry.example",
        "podman login registry.example -u me -p «hunter22»",
        "az login -u me -p «hunter22» --tenant t",
        "redis-cli -h cache -a «hunter22» ping",
        "redis-cli --pass «hunter22» ping",
        "sqlcmd -S server -U sa -P «hunter22» -Q 'select 1'",
        "ldapsearch -x -D cn=admin -w «hunter22» -b dc=example",
        "ldapmodify -x -D cn=admin -w «hunter22» -f x.ldif",
        "htpasswd -b .htpasswd me «hunter22»",
        "htpasswd -nb me «hunter22»",
        "aws configure set aws_secret_access_key «hunter22hunter22»",
        "aws configure set default.aws_session_token «hunter22hunter22» --profile x",
        "echo «hunter22hunter22» | gh auth login --with-token",
        "echo \"«hunter22»\" | docker login -u me --password-stdin registry.example",
    ] {
        check(marked);
    }
}

#[test]
fn options_in_lists_of_strings() {
    for marked in [
        "[\"psql\",\"-U\",\"me\",\"--password\",\"«hunter22»\",\"db\"]",
        "[\"tool\", \"--api-key\", \"«blueberry»\"]",
        "[\n  \"tool\",\n  \"--token\",\n  \"«blueberry»\"\n]",
        "subprocess.run(['tool', '--password', '«swordfish»', '-v'])",
        "[\"mysql\",\"-u\",\"me\",\"-p«hunter22»\",\"db\"]",
        "[\"sshpass\",\"-p\",\"«hunter22»\",\"ssh\",\"host\"]",
        "[\"redis-cli\", \"-a\", \"«hunter22»\", \"ping\"]",
        "[\"docker\", \"login\", \"-u\", \"me\", \"-p\", \"«hunter22»\"]",
    ] {
        check(marked);
    }
}

#[test]
fn other_options_stay() {
    for text in [
        "mysql -u me -p db; mysql -P 3306 -h h; mysqldump --port=3306",
        "docker run -p 8080:80 image; docker ps -a; docker build -p x",
        "sshpass -p $PASSWORD ssh host; sshpass -f file ssh host; sshpass -e ssh host",
        "redis-cli -a <password> ping; redis-cli -h host",
        "az vm create -p 8080; az login --identity",
        "ldapsearch -x -W -D cn=admin; htpasswd -c .htpasswd me",
        "mkdir -p src/tests/commands && cp -a old new && tar -P x",
        "echo $TOKEN | gh auth login --with-token; gh auth login --with-token < token.txt",
        "aws configure set region eu-central-1; aws configure set aws_secret_access_key $SECRET",
        "[\"tool\", \"--token\", \"--verbose\"] [\"tool\", \"--password\", \"$PASSWORD\"] [\"--max-tokens\", \"4096\"]",
        "[\"--token\", \"<token>\"], [\"--password\", \"password\"]",
        "The mysql client asks for it with -p and the sshpass tool reads -p too.",
    ] {
        for body in [text.to_owned(), format!("{{\"text\":\"{}\"}}", inner(text))] {
            assert_eq!(String::from_utf8_lossy(&redactor().redact_text("f", body.as_bytes()).bytes), body);
        }
    }
}
