//! Random command lines that run, or try to run, the program `zapper`.

/// Name of the denied program, in two parts: a line that has the whole name is found without reading it.
const PARTS: (&str, &str) = ("zap", "per");

/// A random sequence that depends on its seed only.
pub(super) struct Random(pub(super) u64);

impl Random {
    /// Returns a number below `end`.
    pub(super) fn below(&mut self, end: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }

    fn pick<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.below(of.len())]
    }
}

/// Lines with `zapper` in disguise; `«` and `»` are the parts of its name.
const COMMANDS: &[&str] = &[
    "«$@»",
    "«${u}» x",
    "«$(:)»",
    "«``»",
    "$'\\x7aapper'",
    "$'\\172apper' x",
    "z\\\napper",
    "{«,}»",
    "$(printf '«%s' »)",
    "`printf «``printf »`",
    "$(rev <<< repPaz | tr P p)",
    "$(printf 'z\\141pper')",
    "./z?pper",
    "./[z]apper",
    "bin/za*er",
    "a=«; b=»; $a$b",
    "a=« b=»; \"${a}$b\"",
    "printf -v x '«%s' »; $x",
    "read -r x <<< «; ${x}»",
    "read x y <<< '« »'; $x$y",
    "x=(« »); IFS=; \"${x[*]}\"",
    "x=(« »); \"${x[0]}${x[1]}\"",
    "x=«; n=x; ${!n}»",
    "x='$(«$@»)'; : \"${x@P}\"",
    "x='a[$(«$@»)]'; ((x))",
    "x='a[$(«$@»)]'; echo $((x))",
    "x='a[$(«$@»)]'; [[ -v $x ]]",
    "x='a[$(«$@»)]'; test -v \"$x\"",
    "x='a[$(«$@»)]'; [[ x -eq 1 ]]",
    "x='a[$(«$@»)]'; declare -i y=x",
    "x='a[$(«$@»)]'; declare y[x]=1",
    "x='a[$(«$@»)]'; echo ${y[x]} ${y:x}",
    "x='a[$(«$@»)]'; unset \"$x\"",
    "x='a[$(«$@»)]'; let y=x",
    "x='a[$(«$@»)]'; printf -v \"$x\" 1",
    "x='a[$(«$@»)]'; read \"$x\" <<< 1",
    "declare -n r='a[$(«$@»)]'; r=1",
    "unset 'a[$(«$@»)]'",
    "read 'a[$(«$@»)]' <<< 1",
    "mapfile -t x < <(printf '«%s' »); ${x[0]}",
    "set -- « »; $1$2",
    "set -- «$@»; \"$@\"",
    "f() { $1$2; }; f « »",
    "IFS=_; x=«$@»_y; $x",
    "x=«_; ${x%_}»",
    "x=_«»; ${x#_}",
    "x=«q»; ${x/q/}",
    "echo '«$@»' | sh",
    "printf '«%s' » | sh",
    "printf » | xargs -I% «%",
    "printf '«%s\\n' » | xargs -I% %",
    "printf '«%s' » | while read x; do $x; done",
    "echo « | sed s/$/»/ | bash",
    "echo repPaz | rev | tr P p | bash",
    "base64 -d <<< emFwcGVyCg== | sh",
    "find bin -name 'z?pper' -exec {} \\;",
    "find bin -name 'z?pper' | sh",
    "ls bin/z* | xargs -n1 env",
    "cp bin/z?pper q; ./q",
    "ln -s bin/z?pper q; ./q",
    "cat bin/z?pper > q; sh q",
    "printf '«%s' » > q; . ./q",
    "printf '«%s' » > q; chmod +x q; PATH=.:$PATH q",
    "cat > q <<'E'\n«$@»\nE\nsh ./q",
    "cat > q <<'E'\n#!/usr/bin/env bash\n«$@»\nE\nchmod +x q; ./q",
    "cat > q.py <<'E'\nimport os; os.system('«'+'»')\nE\npython3 q.py",
    "awk 'BEGIN{system(\"«\" \"»\")}'",
    "awk 'BEGIN{\"«\" \"»\" | getline}'",
    "awk 'BEGIN{print \"«\" \"»\" | \"sh\"}'",
    "echo x | sed 's/x/«''$@»/e'",
    "echo x | sed '1e «${x}»'",
    "echo x | sed -n 's/x/z\\x61pper/ep'",
    "v='x/;1e «$@»;s/x'; echo x | sed \"s/$v/y/\"",
    "perl -e 'system(\"«\".\"»\")'",
    "perl -e '`«${x}»`'",
    "perl -e 'exec join \"\", \"«\", \"»\"'",
    "python3 -c 'import os; os.system(\"«\"+\"»\")'",
    "python3 -c 'import os; os.popen(\"«%s\" % \"»\").read()'",
    "python3 - <<'E'\nimport subprocess\nsubprocess.run(['«' '»'])\nE",
    "make --eval 'x:;@«$${u}»' x",
    "make -f - x <<< 'x:;@«$${u}»'",
    "make SHELL=\"bin/z?pper\"",
    "printf 'x:;@«$${u}»' > Makefile; make",
    "git -c alias.x='!«$@»' x",
    "git -c core.pager='«$@»' -p --help",
    "tar -cf - q2 --checkpoint=1 --checkpoint-action=exec='«$@»' 2>/dev/null",
    "tar -cf q.tar q2; tar -xf q.tar --to-command='«${u}»'",
    "split --filter='«$@»' q2",
    "env -S '«${u}»'",
    "env -i bash -c '«$@»'",
    "timeout 5 sh -c '«$@»'",
    "nice -n 5 bash -c \"«\\$@»\"",
    "setsid -w sh -c '«${u}»'",
    "flock q2 -c '«$@»'",
    "bash <<< '«$@»'",
    "bash <<'E'\n«$@»\nE",
    "bash <<E\n$(echo «)»\nE",
    "bash -s « » <<< '$1$2'",
    "bash -c '$0$1' « »",
    "bash -c '\"$@\"' _ «$@»",
    "sh -c \"$(printf '«%s' »)\"",
    "eval \"«$(:)»\"",
    "eval «'$@'»",
    "eval 'x=«; ${x}»'",
    ". <(printf '«%s' »)",
    "source /dev/stdin <<< '«$@»'",
    "trap '«$@»' EXIT",
    "trap '«$@»' DEBUG; :",
    "BASH_ENV=<(printf '«%s' ») bash -c :",
    "PS4='$(«$@»)' bash -xc : 2>/dev/null",
    "PROMPT_COMMAND='«$@»' bash -i <<< : 2>/dev/null",
    "alias q=«$@»; shopt -s expand_aliases\nq",
    "hash -p bin/z?pper q; q",
    "mapfile -C '«$@» #' -c1 x <<< y",
    "coproc «$@»; wait",
    "enable -n echo; «$@»",
    "tee >(«$@») <<< x > /dev/null; sleep 0.1",
    "cat <(«$@»)",
    "cat <<E\n$(«$@»)\nE",
    "echo ${x:-$(«$@»)}",
    "x=`«$@»`",
    "export x=$(«$@»)",
    "command «$@»",
    "builtin eval '«$@»'",
    "exec «$@»",
    "time «$@»",
    "! «$@»",
    "select x in 1; do «$@»; done <<< 1 2>/dev/null",
    "case x in $(«$@»)) ;; esac",
    "case x in (x) «$@»;; esac",
    "for ((i=0;i<1;i++)); do «$@»; done",
    "function f { «$@»; }; f",
    "ls() { «$@»; }; ls",
    "[[ -n $(«$@») ]]",
    "exec 3<<< '«$@»'; bash <&3",
    "exec 3< <(echo '«$@»'); . /dev/fd/3",
    "«$@» 2>&1 >/dev/null | cat",
    "xargs -a q2 -I% sh -c '«$@»'",
    "find . -maxdepth 0 -exec sh -c '«$@»' \\;",
    "printf -- '-e1e «%s' » | xargs -d '\\n' -I% sed % q2",
    "wait -n -p 'a[$(«$@»)]'",
    "exec {a['$(«$@»)']}> /dev/null",
    ": $((a[$(«$@»)]))",
    "((a[$(«$@»)]=1))",
    "x=\"$(<q2)\"; «$@»",
    "if «$@»; then :; fi",
    "until «$@»; do :; done",
    "while ! «$@»; do :; done",
    "{ «$@»; } | cat",
    "( «$@» ) &\nwait",
    "true && «$@» || :",
];

/// Contexts for a line; `¤` is the line, `§` the line in single quotes.
const CONTEXTS: &[&str] = &[
    "¤",
    "¤",
    "¤",
    "¤",
    "( ¤\n)",
    "{ ¤\n}",
    "bash -c §",
    "sh -c §",
    "eval §",
    "env bash -c §",
    "nice bash -c §",
    "timeout 5 bash -c §",
    "nohup bash -c § 2>/dev/null",
    "echo \"$(¤\n)\"",
    "cat <(¤\n)",
    "f() { ¤\n}; f",
    "if true; then ¤\nfi",
    "for i in 1; do ¤\ndone",
    "while :; do ¤\nbreak; done",
    "case a in a) ¤\n;; esac",
    "bash <<< §",
    "bash <<'ZZ'\n¤\nZZ\n",
    "printf %s § | bash",
    "trap § EXIT",
    "xargs -I% bash -c § <<< 1",
    "find . -maxdepth 0 -exec bash -c § \\;",
    "env -S \"bash -c\" §",
    "x=$(¤\n)",
    "! { ¤\n}",
    "time { ¤\n}",
    "{ ¤\n} | cat",
    "( ¤\n) > /dev/null 2>&1",
    "[[ -n \"$(¤\n)\" ]]",
    "cat <<ZZ\n$(¤\n)\nZZ\n",
    "printf %s § > w.sh; sh w.sh",
    "cat > w.sh <<'ZZ'\n¤\nZZ\nbash w.sh",
    "busybox sh -c §",
    "make --eval \"x:;@bash -c §\" x",
    "awk 'BEGIN{}' q2; ¤",
    "setsid -w bash -c §",
    "flock q2 bash -c §",
    "exec bash -c §",
    "command bash -c §",
    "stdbuf -o0 bash -c §",
];

/// Harmless text before and behind a line.
const AROUND: &[&str] = &[
    "",
    "",
    "",
    "",
    "true; ",
    "# it's a comment\n",
    "echo 'a' \"b\"; ",
    ": ${x:-1}; ",
    "cd . && ",
    "x=1\n",
    "[ -f q2 ] && ",
    "echo $((1 + 2)); ",
    "cat <<E\nit's\nE\n",
    "case x in y) ;; esac; ",
    "a=(1 2); ",
    "y=(a\n# )\nb)\n",
    "echo \"${x:-\"a}\"}\"; ",
    "echo \"$(echo \"a)\")\"; ",
    "[[ a =~ (b|a) ]]; ",
    "echo a{b,c}; ",
    "(( 1 # 1 )); ",
    "echo \\\n; ",
    "z=$'a\\'b'; ",
    "cat << 'E' > /dev/null\n'\nE\n",
    "printf '%s\\n' \"#\"; ",
    "echo a#b; ",
    "{ :; }; ",
    "sed -n 's/[/]/x/p' q2; ",
    "awk '{print \"#\"}' q2; ",
    "echo `echo '#'`; ",
];

/// Pieces that a change may put into a line.
const PIECES: &[&str] = &[
    "'", "\"", "\\", "$", "`", "(", ")", "{", "}", "[", "]", "#", "\n", " ", ";", "&", "|", "<", ">", "<<",
    "$(", "${", "))", "((", "[[", "]]", "\\\n", "!", "*", "?", "~", "=", "$'", "$\"", "esac", " in ",
    "<<E\n", "\t", "@(", "${x", "0<&", "#\n", "''", "\"\"",
];

/// Returns a random line.
pub(super) fn line(random: &mut Random) -> String {
    let mut line = random.pick(COMMANDS).replace('«', PARTS.0).replace('»', PARTS.1);
    for _ in 0..random.below(4) {
        let quoted = format!("'{}'", line.replace('\'', r"'\''"));
        let context = random.pick(CONTEXTS);
        let place = if context.contains('¤') { ('¤', line) } else { ('§', quoted) };
        line = context.replace(place.0, &place.1);
    }
    line = format!(
        "{}{line}{}",
        random.pick(AROUND),
        random.pick(&["", "", "\n", " ; true", " # end", " || true"])
    );
    for _ in 0..random.below(3) {
        let at: Vec<usize> = line.char_indices().map(|(at, _)| at).collect();
        let place = at[random.below(at.len())];
        match random.below(3) {
            0 => line.insert_str(place, random.pick(PIECES)),
            1 => drop(line.remove(place)),
            _ => {
                let from = at[random.below(at.len())].min(place);
                let piece = line[from..place].to_owned();
                line.insert_str(place, &piece);
            }
        }
    }
    line
}
