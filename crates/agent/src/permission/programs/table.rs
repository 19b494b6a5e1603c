//! Tables of programs, by what they do with their words.

use super::super::line::{Content, EXPANSION, Word, base};
use super::is_in;

pub(super) const SHELLS: &str = "sh bash rbash dash zsh ksh mksh ash fish csh tcsh yash";

/// Programs that take commands from elsewhere, and built-ins that give programs other names.
pub(super) const OPAQUE: &str = "su runuser sg newgrp login ssh sshpass script unshare nsenter chroot fakeroot setarch linux32 \
    linux64 parallel sem at batch crontab socat tmux screen machinectl alias enable history fc run-parts systemd-run expect \
    bind complete compgen coproc watch gdb lldb ex ed vi vim nvim view emacs nano m4 busctl dbus-send xterm \
    hyperfine entr watchexec concurrently";

/// Programs that are followed wherever they are in the words of an unknown program.
pub(super) const RUN_ANYWHERE: &str = "xargs env eval find git busybox toybox nohup setsid timeout nice stdbuf ssh su sudo doas chroot unshare nsenter \
     systemd-run parallel flock";

/// Variables that the system sets.
pub(super) const SYSTEM_VARIABLES: &str = "HOME PWD USER LOGNAME TMPDIR UID";

/// Programs that take their words as data, with the words that make them run something: options (a long one may be
/// abbreviated, a short one may be in a cluster), beginnings of words (`SHELL=`), whole words, and parts of words (`~$`).
/// With a `!` before it, the word makes the line unresolved.
const DATA: &[(&str, &str)] = &[
    (
        ": true false echo cd pushd popd dirs pwd type exit return break continue shift umask ulimit kill times suspend \
         disown fg bg ls cat head tail wc rm rmdir mkdir touch cp mv ln chmod chown chgrp stat file du df diff cmp comm \
         cut paste tr uniq nl tac rev fold fmt column join tee dd sponge basename dirname realpath readlink mktemp grep \
         egrep fgrep tree which whereis truncate shred sync od xxd hexdump strings base64 base32 md5sum sha1sum \
         sha224sum sha256sum sha384sum sha512sum b2sum cksum sum iconv expand unexpand gzip gunzip zcat bzip2 bunzip2 \
         xz unxz zstd lz4 seq printenv date cal sleep yes expr factor uname hostname whoami id groups nproc free uptime \
         ps pgrep pkill killall lsof ping host dig nslookup clear tput jq diffstat numfmt shuf tsort pathchk getconf \
         locale logger mkfifo unlink link unzip bc test [ printf read unset wait export declare typeset readonly local \
         set shopt hash jobs trap let getopts mapfile readarray ss ip ifconfig netstat lscpu lsblk mount gofmt \
         redis-cli curl javac nm size ldd ar cloc tokei",
        "",
    ),
    (
        "tar bsdtar",
        "--to-command --checkpoint-action --use-compress-program --rsh-command --info-script --new-volume-script -I -F",
    ),
    ("sort", "--compress-program"),
    ("split csplit", "--filter"),
    ("install", "--strip-program"),
    ("patch", "--get -g"),
    ("zip", "-T -TT --unzip-command"),
    ("rsync scp sftp", "--rsh --rsync-path -e -S -o -D"),
    ("wget", "--use-askpass --execute --config -e"),
    ("rg", "--pre --hostname-bin"),
    ("fd fdfind", "--exec --exec-batch -x -X"),
    ("yq", "~env ~load"),
    ("less more most man", "+ -P -H -X --pager --html --lesskey-src -k -t"),
    (
        "make gmake",
        "SHELL= .SHELLFLAGS= MAKEFLAGS= MFLAGS= GNUMAKEFLAGS= MAKE= !--eval !-E !-f- !- !~$( !~` ~$ ~\\ !~/dev/ !~/proc/",
    ),
    ("ninja", "-t -"),
    ("cargo", "!--config watch ~$ ~`"),
    ("rustc rustdoc rustfmt", "-C --codegen -Clinker --config"),
    ("rustup", "run"),
    ("pytest py.test", "--pdbcls -p -c --override-ini"),
    ("ruff black mypy isort flake8 pylint", "--config -c ~$"),
    (
        "tsc eslint prettier jest vitest mocha stylelint",
        "--require -r --config -c --plugin --rulesdir --resolve-plugins-relative-to ~$(",
    ),
    ("go", "-exec -toolexec -vettool generate tool ~$ ~`"),
    ("pip pip3", "--editor --python config"),
    ("apt apt-get brew dnf yum apk", "-o --option -c --config-file services"),
    ("gh", "alias extension --editor ~$( ~`"),
    ("kubectl helm", "exec plugin --kubeconfig debug run edit -- --post-renderer"),
    (
        "docker podman nerdctl",
        "exec run create start buildx compose-exec debug -- ~$( ~` --entrypoint --health-cmd",
    ),
    ("openssl gpg", "-engine -provider --exec-path --photo-viewer --keyserver-options"),
    ("dotnet gradle gradlew mvn mvnw bazel", "exec run -e:exec ~$ ~` ~exec: -I --init-script --run_under"),
];

/// Commands of git, like [`DATA`].
const GIT: &[(&str, &str)] = &[
    (
        "status add rm mv branch checkout switch restore reset blame tag rev-parse rev-list ls-files ls-tree cat-file \
         describe merge-base stash cherry-pick revert shortlog reflog clean annotate name-rev whatchanged \
         count-objects check-ignore for-each-ref show-ref hash-object gc fsck apply am var version help notes log diff show commit worktree format-patch",
        "",
    ),
    ("init", "!--template"),
    ("merge", "-s --strategy"),
    ("grep", "-O --open-files-in-pager"),
    (
        "fetch pull push clone ls-remote archive",
        "--upload-pack --receive-pack --exec -u !-c !--config !--template -s --strategy -x ~ext::",
    ),
    ("rebase", "-x --exec -s --strategy"),
    ("remote", "~ext::"),
];

/// Settings of git that run nothing.
pub(super) const PLAIN_GIT_SETTINGS: &[&str] =
    &["user.", "color.", "advice.", "init.defaultBranch", "safe.", "column.", "commit.gpgsign=", "log."];

/// Programs that write the files they are given.
pub(super) const MAKERS: &str = "tee dd cp mv ln install sponge sort split csplit rsync scp patch curl wget xxd uniq openssl gpg \
    base64 yq ar zip touch";

/// Files that a program takes its commands from without a word about them.
pub(super) const CONFIGURED: &[(&str, &str)] = &[
    ("make gmake", "Makefile makefile GNUmakefile"),
    ("just", "justfile Justfile .justfile"),
    ("npm npx pnpm yarn bun", "package.json .npmrc"),
    ("git", ".gitconfig .gitattributes"),
    ("gdb lldb", ".gdbinit .lldbinit"),
];

/// Programs that print names of files, with the words that make them print something else, or that they need.
const LISTERS: &[(&str, &str)] = &[
    ("ls pwd uname whoami hostname", ""),
    ("find", "-printf -fprintf -exec -execdir -ok -okdir -ls"),
    ("fd fdfind", "-x -X --exec --exec-batch --format"),
];

/// Finds the row of a name.
fn row(table: &'static [(&str, &str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(names, _)| is_in(names, name)).map(|(_, words)| *words)
}

/// Returns the words that make a program run something, if it takes all others as data.
pub(super) fn runners(name: &str) -> Option<&'static str> {
    row(DATA, name)
}

/// Returns the words that make a command of git run something, if it takes all others as data.
pub(super) fn git_runners(name: &str) -> Option<&'static str> {
    row(GIT, name)
}

/// Returns the word after which nothing is known of a program, if this is one.
pub(super) fn opaque_runner<'r>(runners: &'r str, word: &Word) -> Option<&'r str> {
    let mut opaque = runners.split_ascii_whitespace().filter_map(|runner| runner.strip_prefix('!'));
    opaque.find(|runner| is_runner(runner, word))
}

/// Returns whether a word is one of those that make a program run something.
pub(super) fn is_runner(runners: &str, word: &Word) -> bool {
    // Of an unknown word, the text before the first expansion counts.
    let text = word.text();
    let known = text.split(EXPANSION).next().unwrap_or_default();
    runners.split_ascii_whitespace().any(|runner| match runner.strip_prefix('~') {
        Some(part) => text.contains(part),
        None if runner.len() > 2 && runner.starts_with("--") => {
            let name = known.split('=').next().unwrap_or_default();
            // Programs accept abbreviations of long options.
            name.len() > 3 && name.starts_with("--") && runner.starts_with(name)
        }
        None if runner.len() == 2 && runner.starts_with('-') && runner != "--" => {
            known.starts_with('-') && !known.starts_with("--") && known.contains(&runner[1..])
        }
        None if runner.ends_with(['=', '+', ':']) => known.starts_with(runner),
        None => known == runner || (runner.starts_with('-') && known.split('=').next() == Some(runner)),
    })
}

/// Returns whether a command copies its input to the files that it writes.
pub(in super::super) fn copies_input(words: &[Word]) -> bool {
    match words.split_first() {
        Some((program, [])) => program.plain() == Some("cat"),
        Some((program, _)) => program.plain() == Some("tee"),
        None => false,
    }
}

/// Returns what a command prints.
pub(in super::super) fn output(words: &[Word], reads_names: bool) -> Content {
    let words: Vec<&str> = words.iter().map(Word::text).collect();
    let Some((program, rest)) = words.split_first() else { return Content::Unknown };
    let (program, has) = (base(program), |word: &str| rest.contains(&word));
    let cluster = |letters: &[char]| {
        rest.iter().any(|word| word.starts_with('-') && !word.starts_with("--") && word.contains(letters))
    };
    let is_number = match program {
        "seq" => rest.iter().all(|word| word.chars().all(|c| c.is_ascii_digit())),
        "wc" => rest.iter().all(|word| word.starts_with('-') && !word.starts_with("--")),
        "nproc" => true,
        "date" => rest == ["+%s"],
        _ => false,
    };
    let is_names = match program {
        "grep" | "egrep" | "fgrep" | "rg" if cluster(&['l', 'L']) || has("--files-with-matches") => true,
        "rg" => has("--files"),
        "git" => has("ls-files") || (has("diff") && has("--name-only")) || rest == ["rev-parse", "HEAD"],
        "date" => rest.iter().all(|word| !word.starts_with("+-") && word.chars().all(is_simple)),
        "grep" | "egrep" | "head" | "tail" | "sort" | "uniq" => reads_names,
        _ => row(LISTERS, program).is_some_and(|others| !others.split_ascii_whitespace().any(has)),
    };
    match () {
        () if is_number => Content::Number,
        () if is_names => Content::Names,
        () => Content::Unknown,
    }
}

/// Returns whether a character has no meaning to a shell.
pub(super) fn is_simple(c: char) -> bool {
    c.is_alphanumeric() || "_./:=@%+,-#".contains(c)
}

/// Returns whether a text could, as a command line, run a program that it does not name.
pub(super) fn may_hide(text: &str) -> bool {
    let is_path_pattern = text.starts_with(['/', '~']) || text.contains([' ', '\t', '\n']);
    text.contains(['$', '`', '\\', '|', '<', '>', ';'])
        || (is_path_pattern && text.contains(['*', '?', '[', '{']))
}
