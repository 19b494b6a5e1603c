use expect_test::expect;
use serde_json::json;

use crate::tools::testing::Yard;

fn yard() -> Yard {
    Yard::new(&[
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
    let yard = yard();
    let seen = yard
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
                json!({"pattern": "fish", "limit": 1, "output": "files"}),
                json!({"pattern": "fish", "limit": 3, "output": "files"}),
                json!({"pattern": "fish", "path": "ignored"}),
                json!({"pattern": "fish", "path": "alias.txt"}),
                json!({"pattern": "whale"}),
                json!({"pattern": "kestrel"}),
            ],
        )
        .await;
    expect![[]].assert_eq(&seen);
}

#[tokio::test]
async fn what_cannot_be_searched_is_named() {
    let yard = yard();
    let seen = yard
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
    expect![[]].assert_eq(&seen);
}

#[tokio::test]
async fn long_lines_are_cut_round_the_match() {
    let line = format!("{}needle{}\n", "ä".repeat(1_000), "b".repeat(1_000));
    let yard = Yard::new(&[("long.txt", &line)]);
    let seen = yard.ask("grep", json!({"pattern": "needle"})).await;
    let seen = seen.replace(&"ä".repeat(100), "<100 ä>").replace(&"b".repeat(294), "<294 b>");
    expect![[]].assert_eq(&seen);
}

#[tokio::test]
async fn a_large_answer_is_cut() {
    let line = format!("x{}\n", "y".repeat(390));
    let files: Vec<String> = (0..9).map(|number| format!("f{number}.txt")).collect();
    let text = line.repeat(220);
    let files: Vec<(&str, &str)> = files.iter().map(|name| (name.as_str(), text.as_str())).collect();
    let seen = Yard::new(&files).ask("grep", json!({"pattern": "x", "limit": 2000})).await;
    assert!(seen.len() < 400_000, "{}", seen.len());
    expect![[]].assert_eq(seen.lines().last().expect("a line"));
}
