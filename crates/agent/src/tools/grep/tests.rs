use expect_test::expect;
use serde_json::json;

use crate::testing::TestWorkspace;

fn fixture() -> TestWorkspace {
    TestWorkspace::new(&[
        ("poem.txt", "one fish\ntwo fish\nred dog\nblue Fish\nlast\n"),
        ("src/main.rs", "fn main() {\n    swim(\"fish\");\n}\n"),
        ("src/lib.rs", "// no swimmers\r\npub fn swim() {} // fish\r\n"),
        ("ignored/fish.txt", "fish\n"),
        (".gitignore", "ignored/\n"),
        (".git/fish", "fish\n"),
        ("data.bin", "fish\nfish\0fish\n"),
        ("way out -> ../outside", ""),
        ("leak.txt -> ../outside/secret.txt", ""),
        ("alias.txt -> poem.txt", ""),
        ("empty.txt", ""),
    ])
}

#[tokio::test]
async fn lines_are_found() {
    let fixture = fixture();
    let seen = fixture
        .table(
            "grep",
            [
                json!({"pattern": "fish"}),
                json!({"pattern": "fish", "case_insensitive": true, "output": "count"}),
                json!({"pattern": "fish", "output": "files"}),
                json!({"pattern": "fish", "glob": "*.rs"}),
                json!({"pattern": "fish", "glob": "src/*.rs", "output": "files"}),
                json!({"pattern": "fish", "path": "src", "glob": "./lib.rs"}),
                json!({"pattern": "^.ed", "context": 1}),
                json!({"pattern": "two|last|main", "context": 1}),
                json!({"pattern": "fish$"}),
                json!({"pattern": "fish", "limit": 1}),
                json!({"pattern": "fish", "limit": 2}),
                json!({"pattern": "fish", "limit": 4}),
                json!({"pattern": "fish", "limit": 1, "output": "files"}),
                json!({"pattern": "fish", "limit": 3, "output": "files"}),
                json!({"pattern": "fish", "path": "ignored"}),
                json!({"pattern": "fish", "path": "alias.txt"}),
                json!({"pattern": "whale"}),
                json!({"pattern": "kestrel"}),
            ],
        )
        .await;
    expect![[r#"
        --- {"pattern":"fish"}
        poem.txt:1:one fish
        poem.txt:2:two fish
        src/lib.rs:2:pub fn swim() {} // fish
        src/main.rs:2:    swim("fish");
        --- {"pattern":"fish","case_insensitive":true,"output":"count"}
        poem.txt:3
        src/lib.rs:1
        src/main.rs:1
        --- {"pattern":"fish","output":"files"}
        poem.txt
        src/lib.rs
        src/main.rs
        --- {"pattern":"fish","glob":"*.rs"}
        src/lib.rs:2:pub fn swim() {} // fish
        src/main.rs:2:    swim("fish");
        --- {"pattern":"fish","glob":"src/*.rs","output":"files"}
        src/lib.rs
        src/main.rs
        --- {"pattern":"fish","path":"src","glob":"./lib.rs"}
        src/lib.rs:2:pub fn swim() {} // fish
        --- {"pattern":"^.ed","context":1}
        poem.txt-2-two fish
        poem.txt:3:red dog
        poem.txt-4-blue Fish
        --- {"pattern":"two|last|main","context":1}
        poem.txt-1-one fish
        poem.txt:2:two fish
        poem.txt-3-red dog
        poem.txt-4-blue Fish
        poem.txt:5:last
        --
        src/main.rs:1:fn main() {
        src/main.rs-2-    swim("fish");
        --- {"pattern":"fish$"}
        poem.txt:1:one fish
        poem.txt:2:two fish
        src/lib.rs:2:pub fn swim() {} // fish
        --- {"pattern":"fish","limit":1}
        poem.txt:1:one fish
        [there is more; narrow the search to see it]
        --- {"pattern":"fish","limit":2}
        poem.txt:1:one fish
        poem.txt:2:two fish
        [there is more; narrow the search to see it]
        --- {"pattern":"fish","limit":4}
        poem.txt:1:one fish
        poem.txt:2:two fish
        src/lib.rs:2:pub fn swim() {} // fish
        src/main.rs:2:    swim("fish");
        --- {"pattern":"fish","limit":1,"output":"files"}
        poem.txt
        [there is more; narrow the search to see it]
        --- {"pattern":"fish","limit":3,"output":"files"}
        poem.txt
        src/lib.rs
        src/main.rs
        --- {"pattern":"fish","path":"ignored"}
        ignored/fish.txt:1:fish
        --- {"pattern":"fish","path":"alias.txt"}
        alias.txt:1:one fish
        alias.txt:2:two fish
        --- {"pattern":"whale"}
        nothing matches `whale`
        --- {"pattern":"kestrel"}
        nothing matches `kestrel`
    "#]]
    .assert_eq(&seen);
}

#[tokio::test]
async fn unsearched_files_are_named() {
    let fixture = fixture();
    let seen = fixture
        .table(
            "grep",
            [
                json!({"pattern": "(fish"}),
                json!({"pattern": "fish\\n"}),
                json!({"pattern": "(?:a{1000}){1000}"}),
                json!({"pattern": "fish", "glob": "{a"}),
                json!({"pattern": "fish", "output": "count", "context": 2}),
                json!({"pattern": "fish", "path": "data.bin"}),
                json!({"pattern": "fish", "path": "none"}),
                json!({"pattern": "fish", "path": "way out"}),
                json!({"pattern": "fish", "path": "leak.txt"}),
                json!({"pattern": "fish", "path": "../outside"}),
            ],
        )
        .await;
    expect![[r#"
        --- {"pattern":"(fish"}
        error: `pattern` is not a regular expression: regex parse error:
            (?:(fish)
            ^
        error: unclosed group
        --- {"pattern":"fish\\n"}
        error: `pattern` is not a regular expression: the literal "\n" is not allowed in a regex
        --- {"pattern":"(?:a{1000}){1000}"}
        error: `pattern` is not a regular expression: compiled regex exceeds size limit of 10485760
        --- {"pattern":"fish","glob":"{a"}
        error: `glob` is not a glob: error parsing glob '{a': unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
        --- {"pattern":"fish","output":"count","context":2}
        error: `context` needs `output` to be "content"
        --- {"pattern":"fish","path":"data.bin"}
        error: `data.bin` is a binary file; it is not searched
        --- {"pattern":"fish","path":"none"}
        error: `none` does not exist
        --- {"pattern":"fish","path":"way out"}
        error: `way out` is outside the workspace `HOME/yard`
        --- {"pattern":"fish","path":"leak.txt"}
        error: `leak.txt` is outside the workspace `HOME/yard`
        --- {"pattern":"fish","path":"../outside"}
        error: `../outside` is outside the workspace `HOME/yard`
    "#]].assert_eq(&seen);
}

#[tokio::test]
async fn long_lines_are_cut_round_the_match() {
    let line = format!("{}needle{}\n", "ä".repeat(1_000), "b".repeat(1_000));
    let fixture = TestWorkspace::new(&[("long.txt", &line)]);
    let seen = fixture.ask("grep", json!({"pattern": "needle"})).await;
    let seen = seen.replace(&"ä".repeat(100), "<100 ä>").replace(&"b".repeat(294), "<294 b>");
    expect![[r#"
        long.txt:1:…<100 ä>needle<294 b>… [cut: the line has 2006 characters]
    "#]]
    .assert_eq(&seen);
}

#[tokio::test]
async fn a_large_answer_is_cut() {
    let line = format!("x{}\n", "y".repeat(390));
    // In one file, and in many.
    for (files, lines) in [(1, 1_900), (19, 100)] {
        let names: Vec<String> = (0..files).map(|number| format!("f{number}.txt")).collect();
        let text = line.repeat(lines);
        let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), text.as_str())).collect();
        let seen = TestWorkspace::new(&files).ask("grep", json!({"pattern": "x", "limit": 2000})).await;
        assert!((250_000..300_000).contains(&seen.len()), "{}", seen.len());
        assert_eq!(seen.lines().last(), Some("[there is more; narrow the search to see it]"));
    }
}
