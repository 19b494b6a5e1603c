//! PermissionRules, and what people try against them.

mod against_bash;
mod hidden;
mod random_lines;

use serde_json::json;

use super::*;
use crate::testing::TestWorkspace;

fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> PermissionRules {
    let mut rules = PermissionRules::default();
    for (list, texts) in [(RuleList::Allow, allow), (RuleList::Ask, ask), (RuleList::Deny, deny)] {
        for text in texts {
            rules.add(list, text).unwrap_or_else(|why| panic!("{why}"));
        }
    }
    rules
}

fn word(judgement: &Decision) -> &'static str {
    match judgement {
        Decision::Allow => "allow",
        Decision::Ask(_) => "ask",
        Decision::Deny(_) => "deny",
    }
}

fn judge(rules: &PermissionRules, tool: &str, input: serde_json::Value) -> &'static str {
    let anywhere = Workspace::open(Path::new(".")).expect("a folder");
    word(&rules.judge(tool, &input, &anywhere))
}

fn bash(rules: &PermissionRules, command: &str) -> &'static str {
    judge(rules, "bash", json!({ "command": command }))
}

/// Ways to run the output of another command, which is a denied command in escapes.
fn fed() -> Vec<String> {
    let ways = [
        // A shell that reads its commands from somewhere.
        "X | bash",
        "X | bash /dev/stdin",
        "X | bash -- /dev//stdin",
        "X | bash /dev/fd/0",
        "X | bash /proc/self/fd/0",
        "X | bash /proc/self/cwd/../fd/0",
        "cd /dev && X | bash stdin",
        "cd /dev/fd && X | bash ./0",
        "ln -s /dev/stdin x; X | bash x",
        "X | { true; bash; }",
        "X | (true; bash)",
        "X | while :; do bash; break; done",
        "X | if true; then bash; fi",
        "f() { bash; }; X | f",
        "function f { . /dev/stdin; }; X | f",
        "function f if . /dev/stdin; then :; fi; X | f",
        "coproc x { . /dev/stdin; }",
        "function f { $x push; }; f",
        "X | { set -- a; for x do bash; done; }",
        "X | find . -maxdepth 0 -exec bash \\;",
        "X | xargs -I{} {}> x",
        "X | coproc bash",
        "X > >(bash)",
        "X | tee >(bash) > /dev/null",
        "bash <(X)",
        "bash < <(X)",
        "X > x; bash < x",
        "exec 3< <(X); bash <&3",
        "exec 3< <(X); bash /dev/fd/3",
        "{ bash; } < <(X)",
        "bash <<< \"$(X)\"",
        "X | bash 3<<EOF\nEOF",
        "X | bash {x}<<EOF\nEOF",
        "X | bash {x}> /dev/null",
        "exec 3< <(X); bash <<EOF 0<&3\nEOF",
        "X | bash -s",
        "X | bash -",
        "X | bash --",
        "X | bash -i",
        "X | bash -O extglob",
        "X | bash +O extglob",
        "X | bash -euo pipefail",
        "X | bash -o pipefail -s x",
        "X | bash --rcfile x",
        "X | bash --norc",
        "X | bash -c bash",
        "X | sh -c 'exec bash'",
        "bash --rcfile <(X) -i",
        "X | nohup bash",
        "X | time bash",
        "X | setsid bash",
        "X | timeout 5 bash",
        "X | nice -n 5 bash",
        "X | busybox sh",
        "X | env bash",
        "X | env -Sbash",
        "X | env -iS bash",
        "X | env -i '-Sbash -s'",
        "X | exec -a x bash",
        "X | command bash",
        "X | sudo -s",
        "X | su",
        "X | su me",
        "X | ssh localhost",
        "X | script -q /dev/null",
        "script -c \"$(X)\" /dev/null",
        "X | unshare -r",
        "X | setarch x86_64",
        "X | rbash",
        // The shell itself.
        "X | . /dev/stdin",
        "X | source /dev/stdin",
        "X | builtin . /dev/stdin",
        "X | command source /dev/stdin",
        "X | eval . /dev/stdin",
        "X | bash -c '. /dev/stdin'",
        "X | bash -c 'eval \"$(cat)\"'",
        ". <(X)",
        "source <(X)",
        ". $x",
        "X > x; . ./x",
        "X > x; bash x",
        "X > x; chmod +x x; ./x",
        "X | tee x; sh ./x",
        "X | dd of=y; cp y x; sh x",
        "X | tee x.sh > /dev/null; chmod +x x.sh; ./x.sh",
        "X | dd of=x2; chmod +x x2; ./x2",
        "X > x; cp x y; ./y",
        "X > x; chmod +x x; exec ./x",
        "X > x; chmod +x x; (exec -a y ./x)",
        "X > x; chmod +x x; env ./x",
        "X > x; chmod +x x; command ./x",
        "X > x; chmod +x x; timeout 5 ./x",
        "X > x; chmod +x x; nice ./x",
        "X > x; chmod +x x; find . -maxdepth 0 -exec ./x \\;",
        "X > x; chmod +x x; echo | xargs ./x",
        "X > x; chmod +x x; trap ./x 0",
        "X > x; chmod +x x; flock lock ./x",
        "X | tee x; chmod +x x; bash -c 'exec ./x'",
        // What a shell reads before it does anything.
        "X > ~/.bashrc; bash -ic true",
        "X > ~/.bash''rc; bash -i -c true",
        "X > \"$HOME/.bash_profile\"; bash -lc true",
        "X > $x; bash --login -c true",
        "X > .profile; HOME=. exec -l bash -c true",
        "X | tee ~/.bash_login; exec -a -bash bash -c true",
        "cp x ~; bash -ic true",
        "X > ~/.zshenv; zsh -c true",
        "X > x; bash --rcfile x -ic true",
        "X > x; bash -init-file x -ic true",
        "ln -s /bin/bas? b2; X | ./b2",
        "X > x3; chmod 755 x3; PATH=.:$PATH; x3",
        "X | tee x3; chmod 755 x3; export PATH=.; nohup x3",
        "X | dd of=x3; chmod 755 x3; env PATH=. x3",
        "eval \"$(X)\"",
        "X | while read -r x; do $x; done",
        "X | while read -r x; do eval \"$x\"; done",
        "trap \"$(X)\" EXIT",
        "mapfile -c 1 -C eval < <(X)",
        "readarray -c1 -C bash x < <(X)",
        "hash -p /bin/bash x; X | x",
        "alias x=bash; X | x",
        "compgen -C \"$(X)\"",
        // What others write is a program or a line.
        "X | xargs -I{} sh -c {}",
        "X | xargs -I % sh -c %",
        "X | xargs -0I % sh -c 'true; %'",
        "X | xargs --replace=x sh -c x",
        "X | xargs -0 sh -c",
        "X | xargs -d '\\n' -n1 bash -c",
        "X | xargs sh",
        "X | xargs -I% % push",
        "X | xargs -n2 env -i",
        "X | xargs -I% timeout 5 %",
        "find /usr/bin -name 'g?t' -exec {} origin \\;",
        "find . -exec sh -c {} \\;",
        "X | parallel",
        "X | parallel -j 2",
        "X | awk '{system($0)}'",
        "X | awk '{print | \"sh\"}'",
        "X | at now",
        // Variables that are run.
        "BASH_ENV=<(X) bash -c :",
        "BASH_ENV=x bash -c :",
        "export BASH_ENV=x; bash -c :",
        "env BASH_ENV=x bash -c :",
        "read BASH_ENV < <(X); export BASH_ENV; bash -c :",
        "printf -v BASH_ENV x; export BASH_ENV; bash -c :",
        "for BASH_ENV in x; do bash -c :; done",
        ": ${BASH_ENV:=x}; bash -c :",
        "export BASH_''ENV=x; bash -c :",
        "export BASH_$y=x; bash -c :",
        "declare -x \"$y\"=x; bash -c :",
        "printf -v $y x; bash -c :",
        "ENV=x sh -c :",
        "PROMPT_COMMAND=$(X) bash -ic :",
        "PS4=$(X) bash -xc :",
        "PAGER=$(X) git log",
        "export GIT_EDITOR=\"$(X)\"; git commit",
        "GIT_SSH_COMMAND=$(X) git fetch",
        "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0=$(X) git x",
    ];
    ways.map(|way| way.replace('X', r"printf '\147it pu%sh' s")).to_vec()
}

/// A denied command is denied, or at least a question, however it is written.
#[test]
fn a_denied_command_in_any_form() {
    let rules = rules(&["bash"], &[], &["bash(git push*)", "bash(rm -rf *)"]);
    let denied = [
        "git push",
        "git push origin main",
        "git  \t push",
        "  git push",
        "\"git\" push",
        "'git' 'push'",
        "g'i't pu\"sh\"",
        "g\\it push",
        "git \\\n push",
        "/usr/bin/git push",
        "./git push",
        "../../usr/bin/git push",
        "git -C /tmp push",
        "git -c a=b --no-pager push --force",
        "FOO=1 git push",
        "PATH=/x:$PATH git push",
        "env git push",
        "env -i FOO=1 git push",
        "command git push",
        "exec git push",
        "nohup git push &",
        "time git push",
        "timeout 5 git push",
        "xargs git push < list",
        "find . -exec git push \\;",
        "sudo -u me git push",
        "true && git push",
        "false || git push",
        "true; git push",
        "true | git push",
        "true\ngit push",
        "true & git push",
        "(git push)",
        "{ git push; }",
        "! git push",
        "if true; then git push; fi",
        "for x in 1; do git push; done",
        "while git push; do :; done",
        "f() { git push; }; f",
        "echo $(git push)",
        "echo `git push`",
        "echo \"a $(git push) b\"",
        "echo ${x:-$(git push)}",
        "cat <(git push)",
        "sh -c 'git push'",
        "bash -lc \"git push\"",
        "env bash -c 'cd x && git push'",
        "eval git push",
        "eval 'git push'",
        "sh -c \"sh -c 'git push'\"",
        "bash <<EOF\ngit push\nEOF",
        "bash <<'EOF'\ngit push\nEOF",
        "git push > /dev/null 2>&1",
        "2>/dev/null git push",
        "git push # harmless",
        "case x in x) git push;; esac",
        "echo a > \"my file\"; git push",
        "echo a > \"$TMPDIR/x\"; git push",
        "git >\"a b\" push",
        "cat <<< \"$HOME\"; git push",
        "true\r#; git push",
        // Words that another program reads as a line.
        "bash <<< 'git push'",
        "trap 'git push' EXIT",
        "env -S 'git push'",
        "flock x -c 'git push'",
        "mapfile -C 'git push #' -c 1",
        "let 'a[$(git push >&2)]=1'",
        "rm -rf build",
        "rm -v -rf build",
        "/bin/rm -rf /",
    ];
    let others: Vec<&str> = denied.into_iter().filter(|command| bash(&rules, command) != "deny").collect();
    assert_eq!(others, [] as [&str; 0], "not: deny");
    let unclear = [
        "$x push",
        "git $x",
        "git pu${x}sh",
        "$(echo git) push",
        "`echo git` push",
        "$'\\x67it' push",
        "g?t push",
        "g{i,}t push",
        "/usr/bin/g* push",
        "eval \"$x\"",
        "sh -c \"$x\"",
        "bash -c $(cat x)",
        "rm $flags build",
        // What hides it from a reader, or hands it to another one.
        "echo 'git push'",
        "echo 'git push' | sh",
        "alias x='git push'",
        ". <(printf 'git pu''sh')",
        "git pus?",
        "git -c alias.x=push x",
        "hash -p /usr/bin/git zz; zz push",
        "/usr/lib/git-core/git-push",
        "echo 'git push' > s.sh; sh s.sh",
        "echo \"$(case x in x) $g push;; esac)\"",
        "echo \"$(true # )\n$'\\x67it' push)\"",
        "grep -r 'rm -rf' .",
        // Letters that only an evaluation takes away.
        "eval git 'pu$x\"\"sh'",
        "eval 'g$@it' push",
        "builtin eval g'$@'it pu'$@'sh",
        "bash -c 'g$@it${IFS}pu$@sh'",
        "bash <<< 'g$@it pu$@sh'",
        "bash <<< \"g$@it pu$@sh\"",
        "echo \"${x:-'$(g$@it pu$@sh)'}\"",
        "x='a[$(g$@it pu$@sh)]'; ((x))",
        "x='$(g$@it pu$@sh)'; echo \"${x@P}\"",
        "[[ -v 'a[$(g$@it pu$@sh)]' ]]",
        "PS4='$(g$@it pu$@sh)' bash -xc true",
        "trap 'g$@it pu$@sh' EXIT",
        "env -S 'g${x}it pu${x}sh'",
        "cat <<EOF\n\tEOF\n'\nEOF\ng$@it pu$@sh #'",
        // A `#` that begins no comment.
        "(( 2 # 1 )); g$@it pu$@sh",
        "((\n2 # 1 )); g$@it pu$@sh",
        "for ((;0 # ;)); do :; done; g$@it pu$@sh",
        "[[ a =~ ( # ) ]]; g$@it pu$@sh",
        "[[ a == @( # ) ]]; g$@it pu$@sh",
        "! [[ a\n =~ ( # ) ]]; g$@it pu$@sh",
        "declare -A x; x=( [ # ]=1 ); g$@it pu$@sh",
        "declare -A x=([ # ]=1); g$@it pu$@sh",
        "x[ # ]=1; g$@it pu$@sh",
        "x[y[0]\n# ]=1; g$@it pu$@sh",
        "x=( $[1)] # ); g$@it pu$@sh",
        "case a in @( # )) ;; esac; g$@it pu$@sh",
        "bash -c '(( 2 # 1 )); g$@it pu$@sh'",
        // A pattern that is no bracket.
        "shopt -s extglob\n/usr/bin/@(gi)t pu''sh",
        "bash -O extglob -c '/usr/bin/@(gi)t push'",
        "shopt -s extglob\n/usr/bin/gi+(t) pu$@sh",
        "shopt -s extglob\n/usr/bin/!(a)it pu$@sh",
        // Quotes in brackets in quotes.
        "echo $(echo \"$(echo \"a)\"; g$@it pu$@sh; echo \"b\")\")",
        "echo \"$(echo \"`echo \"a)\"`\"; g$@it pu$@sh)\"",
        "echo \"${x:-\"}\"}\"; g$@it pu$@sh",
        "echo \"${x:-'}\"; g$@it pu$@sh; echo \"'}\"",
        "echo ${x:-{}; g?t pus? }",
        "echo $(true; g$@it pu$@sh",
        // Lines that are joined.
        "x=git; $\\\nx pu$\\\n{z}sh",
        "cat <\\\n(g$@it pu$@sh)",
        "echo \"$\\\n(g$@it pu$@sh)\"",
        "true # \\\ng$@it pu$@sh",
        "cat <<EOF\n'\nEO\\\nF\ng$@it pu$@sh",
        "cat <<'EOF'\n'\\\nEOF\ng$@it pu$@sh",
        "cat <\\\n<EOF\n'\nEOF\ng$@it pu$@sh",
        "cat <<$x\n'\n$x\ng$@it pu$@sh",
        // `time` is a word of the shell, and has options.
        "x=git; time -p $x pu${z}sh",
        "x=git; time -- $x pu${z}sh",
        "x=git; ! time -p -- $x pu${z}sh",
        "x=git; \\time $x pu${z}sh",
        "x=git; /usr/bin/time -f %e $x pu${z}sh",
        // Folders that are none.
        "HOME=push; git ~",
        "HOME=git; ~ pu${z}sh",
        "read HOME <<< push; git ~",
        "unset HOME; : ${HOME:=push}; git ~",
        "OLDPWD=push; git ~-",
        "HO''ME=push; eval 'git ~'",
        // Other names for programs, and what was typed before.
        "BASH_CMDS[x]=/usr/bin/g?t; x pu${z}sh",
        "BASH_ALIASES[x]=g$@it; x pu${z}sh",
        "set -o history; history -s g''it pu$@sh; fc -s",
        "fc -s x",
        // More programs that run their words.
        "x=git; setpriv --no-new-privs $x pu${z}sh",
        "x=git; prlimit --nofile=9 $x pu${z}sh",
        "x=git; ssh-agent $x pu${z}sh",
        "x=git; jobs -x $x pu${z}sh",
        "x=git; /lib64/ld-linux-x86-64.so.2 $x pu${z}sh",
        "x=git; choom -n 5 -- $x pu${z}sh",
        "x=git; uclampset -m 0 $x pu${z}sh",
        "x=git; systemd-run --user $x pu${z}sh",
        "run-parts .",
        "x=git; flock lock $x pu${z}sh",
        "x=git; timeout inf $x pu${z}sh",
        "x=git; taskset ff $x pu${z}sh",
        // Programs that are handed over, or their words.
        "x=g y=it; env $x$y pu${z}sh",
        "command $x",
        "sudo -u me $x",
        "timeout 5 $x",
        "find . -exec $x {} +",
        "printf push | xargs git",
        "printf 'g%st pu%sh' i s | xargs env",
        "printf '\\147it push' | sh",
        "base64 -d x | bash -s",
        "cat x | sudo bash",
    ];
    let unclear: Vec<String> = unclear.into_iter().map(str::to_owned).chain(fed()).collect();
    let others: Vec<&String> = unclear.iter().filter(|command| bash(&rules, command) != "ask").collect();
    assert_eq!(others, [] as [&str; 0], "not: ask");
    for command in [
        "git status",
        "ls $HOME",
        "cargo test",
        "rm build",
        "echo digit; ls pushed",
        "find . -name '*.rs' | xargs grep -l foo",
        "find . -type f | xargs -I{} cp {} out",
        "awk '{print $(NF-1)}' a",
        "printf '%s\\n' a | sort",
        "bash build.sh || true",
        "cat <<EOF > a.txt\nit's $HOME\nEOF",
        "env FOO=1 cargo test",
        "which bash; command -v sh",
        "grep -rn bash . | head",
        "bash -euo pipefail build.sh",
        "bash -euo pipefail -c 'cargo test'",
        "bash -O extglob -c 'ls'",
        "bash -x build.sh release",
        "timeout 60 sh build.sh",
        "chmod +x build.sh && bash build.sh",
        "bash <<'EOF'\nls\nEOF",
        ". ./env.sh && cargo test",
        "source venv/bin/activate",
        "find . -name '*.rs' -exec grep -l foo {} +",
        "ls | xargs -n 1 -P 2 grep foo",
        "ls | xargs -I % cp % out",
        "PAGER=cat git log",
        "NODE_ENV=test npm test",
        "export PATH=\"$HOME/bin:$PATH\"; cargo test",
        "while read -r line; do echo \"$line\"; done < a.txt",
        "awk '$1 > 3 || $2' a.txt",
        "trap 'rm -r build' EXIT; cargo test",
        "time cargo test $x",
        "time -p make",
        "timeout 60 make $x",
        "taskset -c 0-3 make $x",
        "cd ~/src && git status",
        "echo $HOME; git -C ~/src status",
        "echo \"${x:-\"a b\"}\" \"$(basename \"$x\")\"",
        "echo ${x%.*} ${x//a/b}",
        "gcc -o tool tool.c && ./tool",
        "cp a b; ./build.sh | tee log.txt",
        "cat <<EOF > Dockerfile\nRUN a \\\n b\nEOF",
        "cargo test \\\n  --workspace",
        "make # it's all",
        "# one\nmake\n# two\nls",
        "(cd x && make) # why",
        "if [[ -f a ]]; then\n  # why\n  make\nfi",
        "x=(a b)\n# why\nmake",
        "f() { # why\n  make\n}\nf",
        "ls [ab]* # why",
        "gcc -o tool tool.c && timeout 5 ./tool",
        "timeout 5 cp a/b c/d",
        "bash -lc 'cargo test > test.log'",
        "bash -ic 'make'",
        "cat a > b; bash -c ./build.sh",
    ] {
        assert_eq!(bash(&rules, command), "allow", "{command}");
    }
}

/// An allow rule covers the literal command, and nothing beside it.
#[test]
fn an_allowed_command_brings_nothing_along() {
    let rules = rules(&["bash(cargo test*)", "bash(ls *)", "bash(git log:*)", "bash(true)"], &["bash"], &[]);
    for command in [
        "cargo test",
        "cargo test --workspace",
        "cargo  test -- 'a b'",
        "ls -l",
        "ls -l && cargo test",
        "cargo test 2>&1",
        "cargo test > /dev/null",
        "git log --oneline",
        "git log",
        "true",
    ] {
        assert_eq!(bash(&rules, command), "allow", "{command}");
    }
    for command in [
        "cargo build",
        "cargo test; rm x",
        "cargo test && rm x",
        "cargo test | sh",
        "cargo test & rm x",
        "cargo test\nrm x",
        "cargo test $(rm x)",
        "cargo test `rm x`",
        "cargo test <(rm x)",
        "cargo test > ../x",
        "cargo test >> x",
        "(( true # )); touch x",
        "((ls -l # )); touch x",
        "ls -l; (( true # )) || touch x",
        "(\\\n( true # )); touch x",
        "ls > \"1 \" ; touch pwned #\"",
        "ls -l > 7",
        "ls 1<>x",
        "ls\r#; touch x",
        "ls <<< x",
        "cargo test $x",
        "RUSTFLAGS=-x cargo test",
        "PATH=. cargo test",
        "./cargo test",
        "/tmp/cargo test",
        "env cargo test",
        "cargo\\ test",
        "'cargo test'",
        "cargo",
        "true false",
        "cargo-test",
        "if true; then true; fi",
        "",
        "$x",
    ] {
        assert_eq!(bash(&rules, command), "ask", "{command}");
    }
}

/// An allowed program runs no other one.
#[test]
fn an_allowed_program_with_another_one_in_its_words() {
    let allow =
        ["tar *", "sed *", "awk *", "find *", "xargs *", "git *", "make *", "sort *", "rsync *", "python3 *"];
    let allow: Vec<String> = allow.iter().map(|words| format!("bash({words})")).collect();
    let rules = rules(&allow.iter().map(String::as_str).collect::<Vec<_>>(), &["bash"], &[]);
    for command in [
        "tar --to-command=rm -xf a",
        "tar --checkpoint-action=exec=rm --checkpoint=1 -cf a b",
        "tar -I rm -xf a",
        "sed '1e rm x' f",
        "sed 's/x/rm x/e' f",
        "sed -n 'w x' f",
        "awk 'BEGIN{system(\"rm x\")}'",
        "find . -exec rm {} +",
        "find . -exec sh -c 'rm x' \\;",
        "xargs rm < f",
        "git -c alias.x='!rm x' x",
        "git -c core.pager=rm log",
        "git fetch --upload-pack=rm .",
        "git grep -Orm x",
        "make SHELL=rm",
        "make --eval=x",
        "sort --compress-program=rm f",
        "rsync -e rm a b:",
        "python3 -c 'import os; os.system(\"rm x\")'",
        "cat f | python3",
        "tar -tf a; rm x",
        "tar -tf $(rm x)",
        "tar -tf a > b",
        "PATH=. tar -tf a",
        "ls() { rm x; }; tar -tf a",
    ] {
        assert_eq!(bash(&rules, command), "ask", "{command}");
    }
    for command in
        ["tar -tf a", "sed -n 1p f", "awk '{print $1}' f", "git log --oneline", "sort -u f", "make all"]
    {
        assert_eq!(bash(&rules, command), "allow", "{command}");
    }
}

/// Rules match programs with their folder, and tools in any case.
#[test]
fn a_program_s_folder_and_the_letters_of_a_tool_do_not_matter() {
    let paths = rules(&[], &[], &["bash(./deploy.sh*)", "Bash(/usr/bin/git push*)", "WebFetch(evil.net)"]);
    for command in ["./deploy.sh", "./deploy.sh now", "/usr/bin/git push"] {
        assert_eq!(bash(&paths, command), "deny", "{command}");
    }
    assert_ne!(bash(&paths, "git push"), "allow");
    assert_eq!(judge(&paths, "web_fetch", json!({ "url": "https:evil.net" })), "deny");
    let whole = rules(&[], &[], &["Bash"]);
    assert_eq!(bash(&whole, "true"), "deny");
    assert_eq!(whole.unmatched(&["bash"]), Vec::<&str>::new());
    assert_eq!(rules(&[], &[], &["bsh"]).unmatched(&["bash"]), ["bsh"]);
}

#[test]
fn a_question_before_reading_is_one_before_searching() {
    let yard = TestWorkspace::new(&[("secrets/key.txt", "k")]);
    let rules = rules(&[], &["read(secrets)"], &[]);
    for tool in ["read", "grep", "list", "glob"] {
        let judged = rules.judge(tool, &json!({ "path": "secrets" }), &yard.context.workspace);
        assert_eq!(word(&judged), "ask", "{tool}");
    }
    assert!(rules.is_skipped_in_walks(Path::new("secrets/key.txt")));
    assert!(!rules.is_skipped_in_walks(Path::new("src")));
}

#[test]
fn files_are_matched_by_their_real_path() {
    let yard = TestWorkspace::new(&[
        ("secrets/key.txt", "k"),
        ("src/main.rs", ""),
        ("link -> secrets", ""),
        ("file -> secrets/key.txt", ""),
        (".env", "x"),
    ]);
    let rules =
        rules(&[], &["write(src/**)"], &["read(secrets)", "read(.env)", "write(secrets)", "edit(secrets)"]);
    let root = yard.root.display().to_string();
    let judged = |tool: &str, path: &str| {
        let input = json!({ "path": path.replace("ROOT", &root) });
        word(&rules.judge(tool, &input, &yard.context.workspace))
    };
    for path in [
        "secrets/key.txt",
        "./secrets/key.txt",
        "src/../secrets/key.txt",
        "secrets//key.txt",
        "link/key.txt",
        "file",
        "ROOT/secrets/key.txt",
        "secrets",
        "secrets/not/there/yet",
        ".env",
    ] {
        assert_eq!(judged("read", path), "deny", "{path}");
    }
    for path in ["secrets/new.txt", "link/new.txt", "src/../secrets/x", "ROOT/link/x"] {
        assert_eq!(judged("write", path), "deny", "{path}");
        assert_eq!(judged("edit", path), "deny", "{path}");
    }
    assert_eq!(judged("read", "src/main.rs"), "allow");
    assert_eq!(judged("write", "src/main.rs"), "ask");
    assert_eq!(judged("write", "README.md"), "allow");
    assert_eq!(judged("read", ".envrc"), "allow");
}

#[test]
fn hosts_and_names_have_rules_too() {
    let rules = rules(
        &["web_fetch(docs.rs)", "web_fetch(*.example.com)"],
        &["web_fetch"],
        &["web_fetch(evil.example.com)", "files_*"],
    );
    let fetch = |url: &str| judge(&rules, "web_fetch", json!({ "url": url }));
    for url in ["https://docs.rs/x", "https://DOCS.rs./x", "https://docs.rs:443/", "http://a.example.com"] {
        assert_eq!(fetch(url), "allow", "{url}");
    }
    for url in
        ["https://docs.rs.evil.net/", "https://evil.net/docs.rs", "https://example.com.evil.net", "nonsense"]
    {
        assert_ne!(fetch(url), "allow", "{url}");
    }
    assert_eq!(fetch("https://evil.example.com/"), "deny");
    assert_eq!(fetch("https://user@evil.example.com/"), "deny");
    assert_eq!(judge(&rules, "files_delete", json!({})), "deny");
    assert_eq!(judge(&rules, "profiles_delete", json!({})), "allow");
}

/// `write` and `edit` share their rules.
#[test]
fn rules_on_writing_hold_for_editing() {
    let judged = |allow: &[&str], ask: &[&str], deny: &[&str], tool: &str, path: &str| {
        judge(&rules(allow, ask, deny), tool, json!({ "path": path }))
    };
    for (rule, other) in [("write(docs)", "edit"), ("edit(docs)", "write"), ("write", "edit")] {
        assert_eq!(judged(&[], &[], &[rule], other, "docs/a.md"), "deny", "{rule}");
        assert_eq!(judged(&[], &[rule], &[], other, "docs/a.md"), "ask", "{rule}");
        assert_eq!(judged(&[rule], &[rule], &[], other, "docs/a.md"), "allow", "{rule}");
        assert_eq!(judged(&[other], &[rule], &[], other, "docs/a.md"), "allow", "{rule}");
    }
    assert_eq!(judged(&[], &["write(docs)"], &[], "edit", "src/a.rs"), "allow");
    assert_eq!(judged(&["write"], &["edit"], &[], "edit", "a"), "ask", "a question about this very tool");
    assert_eq!(judged(&["write"], &["*"], &[], "write", "a"), "allow");
}

/// Arguments of a server's tools are matched however a path is written.
#[test]
fn arguments_of_a_server_s_tool_have_rules() {
    let yard = TestWorkspace::new(&[
        ("docs/a.md", ""),
        ("secrets/key", ""),
        ("docs/link -> ../secrets", ""),
        ("../elsewhere -> yard", ""),
    ]);
    let name = yard.root.file_name().expect("a name").to_str().expect("plain").to_owned();
    let rules = rules(
        &["files_read(path=docs/*)", "web_get(url=https://docs.rs/*)"],
        &["files_read", "web_get"],
        &["files_*(path=secrets*)", "files_*(paths=secrets*)", "git_push(force=true)", "db_*(query=*DROP *)"],
    );
    let root = yard.root.canonicalize().expect("a folder");
    let judged = |tool: &str, input: serde_json::Value| {
        let input = input.to_string().replace("ROOT", root.to_str().expect("plain")).replace("YARD", &name);
        let input = serde_json::from_str(&input).expect("it is JSON");
        word(&rules.judge(tool, &input, &yard.context.workspace))
    };
    for (tool, input, expected) in [
        ("files_read", json!({ "path": "docs/a.md" }), "allow"),
        ("files_read", json!({ "path": "./docs/a.md" }), "allow"),
        ("files_read", json!({ "path": "ROOT/docs/a.md" }), "allow"),
        ("files_read", json!({ "path": "docs/new/b.md" }), "allow"),
        ("files_read", json!({ "path": "src/a.rs" }), "ask"),
        ("files_read", json!({ "path": "docs/../src/a.rs" }), "ask"),
        ("files_read", json!({ "path": "docs/../../x" }), "ask"),
        ("files_read", json!({ "path": "/etc/docs/a" }), "ask"),
        ("files_read", json!({ "path": ["docs/a.md", "src/a.rs"] }), "ask"),
        ("files_read", json!({ "path": 7 }), "ask"),
        ("files_read", json!({}), "ask"),
        ("files_read", json!({ "path": "secrets/key" }), "deny"),
        ("files_read", json!({ "path": "./secrets/key" }), "deny"),
        ("files_read", json!({ "path": "docs/../secrets/key" }), "deny"),
        ("files_read", json!({ "path": "docs/link/key" }), "deny"),
        ("files_write", json!({ "path": "ROOT/secrets/new" }), "deny"),
        ("files_read_many", json!({ "paths": ["docs/a.md", "secrets/key"] }), "deny"),
        ("files_write", json!({ "path": "src/a.rs" }), "allow"),
        // In ways that a server may read, and the system does not.
        ("files_read", json!({ "path": "nope/../secrets/key" }), "deny"),
        ("files_read", json!({ "path": "docs/x/../../secrets/key" }), "deny"),
        ("files_read", json!({ "path": "./nope/./../secrets/key" }), "deny"),
        ("files_read", json!({ "path": "docs/a.md/../../secrets/key" }), "deny"),
        ("files_read", json!({ "path": "../YARD/secrets/key" }), "deny"),
        ("files_read", json!({ "path": "ROOT/nope/../secrets/key" }), "deny"),
        ("files_read", json!({ "path": "ROOT/../YARD/secrets/key" }), "deny"),
        ("files_read", json!({ "path": "ROOT/../elsewhere/secrets/key" }), "deny"),
        ("files_read", json!({ "path": "nope/../docs/link/key" }), "deny"),
        ("files_read", json!({ "path": " secrets/key" }), "deny"),
        ("files_read", json!({ "path": "file://ROOT/secrets/key" }), "deny"),
        ("files_read", json!({ "path": "FILE://localhostROOT/%73ecrets/key" }), "deny"),
        ("files_read", json!({ "path": "file:secrets/key" }), "deny"),
        ("files_read", json!({ "path": { "p": "secrets/key" } }), "deny"),
        ("files_read", json!({ "path": [{ "p": ["secrets/key"] }] }), "deny"),
        ("files_read", json!({ "with": { "path": "secrets/key" } }), "deny"),
        ("files_write", json!({ "path": "/proc/self/cwd/secrets/key" }), "ask"),
        ("files_write", json!({ "path": "nope/../src/a.rs" }), "ask"),
        ("files_write", json!({ "path": "file://elsewhere/secrets/key" }), "ask"),
        ("files_write", json!({ "path": "docs/../src/a.rs" }), "allow"),
        ("files_write", json!({ "path": { "p": "src/a.rs" } }), "allow"),
        // And what is allowed is allowed in our way alone.
        ("files_read", json!({ "path": "nope/../docs/a.md" }), "ask"),
        ("files_read", json!({ "path": "file://ROOT/docs/a.md" }), "ask"),
        ("files_read", json!({ "path": { "p": "docs/a.md" } }), "ask"),
        ("files_read", json!({ "with": { "path": "docs/a.md" } }), "ask"),
        ("files_read", json!({ "path": "docs/a.md", "with": { "path": "src/a.rs" } }), "ask"),
        ("git_push", json!({ "force": true }), "deny"),
        ("git_push", json!({ "force": false }), "allow"),
        ("git_push", json!({}), "allow"),
        ("db_run", json!({ "query": "select 1; DROP TABLE x" }), "deny"),
        ("web_get", json!({ "url": "https://docs.rs/x" }), "allow"),
        ("web_get", json!({ "url": "https://docs.rs/../x" }), "ask"),
        ("web_get", json!({ "url": "https://evil.net/https://docs.rs/x" }), "ask"),
    ] {
        assert_eq!(judged(tool, input.clone()), expected, "{tool} {input}");
    }
}

/// A skill's exceptions apply to questions of a project, not of the user.
#[test]
fn project_exceptions_answer_no_question_of_the_user() {
    let skill = rules(&["bash", "write"], &[], &[]);
    let mut all = rules(&[], &["bash"], &["bash(git push*)"]);
    all.extend(rules(&[], &["write", "bash(ls *)"], &["write(docs)"]).into_project_rules());
    assert_eq!(judge(&all, "write", json!({ "path": "a" })), "ask");
    all.add_project_exceptions(&skill);
    assert_eq!(bash(&all, "ls -l"), "ask", "the user's own rule");
    assert_eq!(judge(&all, "write", json!({ "path": "a" })), "allow");
    assert_eq!(judge(&all, "write", json!({ "path": "docs/a" })), "deny");
    assert_eq!(bash(&all, "git push"), "deny");
}

#[test]
fn an_invalid_rule_is_named() {
    let wrong = |text: &str| PermissionRules::default().add(RuleList::Deny, text).expect_err(text);
    assert_eq!(wrong("bash(git"), "`bash(git` does not end with `)`");
    assert_eq!(wrong("(x)"), "`(x)` does not begin with a tool's name");
    assert_eq!(wrong("bash()"), "`bash()` has an empty pattern; `bash` alone is for all its calls");
    assert!(wrong("read(/etc/passwd)").contains("paths are those of the workspace"));
    assert!(wrong("read(../x)").contains("paths are those of the workspace"));
    assert!(wrong("get_time(x)").contains("write `get_time`"));
    assert_eq!(wrong("bsh(git*)"), "`bsh(git*)`: no tool `bsh`");
    assert!(wrong("*(path=x)").contains("write `*`"));
    for text in ["files_read(docs/*)", "files_read(=x)", "files_read(path=)", "files_read(a b=c)"] {
        assert!(wrong(text).contains("name an argument, as in `files_read(path=docs/*)`"), "{text}");
    }
    assert!(wrong("read([)").contains("`read([)`"));
}

/// Rules written for Claude Code keep their meaning.
#[test]
fn the_tools_of_servers_go_by_either_name() {
    let rules = |text: &str| {
        let mut rules = PermissionRules::default();
        rules.add(RuleList::Deny, text).expect("a rule");
        rules
    };
    for text in
        ["mcp__tickets__close", "mcp__tickets", "mcp__tickets__*", "mcp__tickets__cl*", "tickets_close"]
    {
        assert_eq!(judge(&rules(text), "tickets_close", json!({})), "deny", "{text}");
        assert_ne!(judge(&rules(text), "tickets2_close", json!({})), "deny", "{text}");
    }
    let some = rules("mcp__tickets__close(id=7*)");
    assert_eq!(judge(&some, "tickets_close", json!({ "id": "71" })), "deny");
    assert_ne!(judge(&some, "tickets_close", json!({ "id": "8" })), "deny");
}

/// Only-rules permit literal commands. Tools that they do not name are not affected.
#[test]
fn an_only_rule_about_one_writing_tool_holds_for_the_other() {
    for (rule, tool) in
        [("write(docs)", "edit"), ("edit(docs)", "write"), ("write(docs)\nedit(docs)", "edit")]
    {
        let mut rules = PermissionRules::default();
        rules.add(RuleList::Only, rule).expect("a rule");
        assert_eq!(judge(&rules, tool, json!({ "path": "docs/a.md" })), "allow", "{rule}");
        assert_eq!(judge(&rules, tool, json!({ "path": "src/a.rs" })), "deny", "{rule}");
        assert_eq!(judge(&rules, "read", json!({ "path": "src/a.rs" })), "allow", "{rule}");
        assert!(rules.file_denial(Path::new("src/a.rs"), true).is_some(), "{rule}");
        assert_eq!(rules.file_denial(Path::new("docs/a.md"), true), None, "{rule}");
    }
}

#[test]
fn only_rules_permit_nothing_else() {
    let mut rules = PermissionRules::default();
    rules.add(RuleList::Only, "bash(git diff:*)\nbash(ls)\nread(src/**)").expect("a rule");
    for command in ["git diff", "git diff --stat HEAD", "ls", "ls && git diff"] {
        assert_eq!(bash(&rules, command), "allow", "{command}");
    }
    for command in [
        "git push",
        "git",
        "ls -l",
        "git diff; rm x",
        "git diff | sh",
        "git diff $(rm x)",
        "git diff > x",
        "((git diff # )); rm x",
        "X=1 git diff",
        "./git diff",
        "env git diff",
        "git -c core.pager=x diff",
        "sh -c 'git diff'",
        "$x",
        "",
    ] {
        assert_eq!(bash(&rules, command), "deny", "{command}");
    }
    let yard = TestWorkspace::new(&[("src/a.rs", ""), ("src/out -> ../secret.txt", ""), ("secret.txt", "s")]);
    let judged =
        |tool: &str, path: &str| word(&rules.judge(tool, &json!({ "path": path }), &yard.context.workspace));
    for (tool, path) in
        [("read", "src/a.rs"), ("list", "src"), ("grep", "src"), ("write", "x"), ("edit", "x")]
    {
        assert_eq!(judged(tool, path), "allow", "{tool} {path}");
    }
    for (tool, path) in [
        ("read", "secret.txt"),
        ("read", "src/../secret.txt"),
        ("read", "src/out"),
        ("grep", "."),
        ("glob", "."),
    ] {
        assert_eq!(judged(tool, path), "deny", "{tool} {path}");
    }
    assert!(rules.file_denial(Path::new("secret.txt"), false).is_some());
    assert_eq!(rules.file_denial(Path::new("src/a.rs"), false), None);
    assert_eq!(rules.file_denial(Path::new("secret.txt"), true), None);
    // Each of two has to leave it, and a deny still wins.
    rules.add(RuleList::Only, "bash(git:*)").expect("a rule");
    rules.add(RuleList::Deny, "bash(git diff --output*)").expect("a rule");
    assert_eq!(bash(&rules, "git diff"), "allow");
    assert_eq!(bash(&rules, "ls"), "deny");
    assert_eq!(bash(&rules, "git diff --output=x"), "deny");
}
