//! Checks that `ARCHITECTURE.md` and the table of dependencies are true: crates, dependencies between them, purity, and reasons of dependencies.
//!
//! [`rules`] has one function per rule, from the map and the workspace to a list of problems. The tests apply the rules to
//! this project, and to a small sample workspace with one mistake each.

mod map;
mod rules;
mod workspace;

use expect_test::expect;

use map::Map;
use workspace::Workspace;

#[track_caller]
fn assert_rule(rule: fn(&Map, &Workspace) -> Vec<String>) {
    let problems = rule(&Map::read(), &Workspace::read());
    assert!(
        problems.is_empty(),
        "ARCHITECTURE.md or docs/reference/dependencies.md differs from the workspace:\n- {}",
        problems.join("\n- ")
    );
}

#[test]
fn every_crate_is_on_the_map_and_nothing_else() {
    assert_rule(rules::crates_are_on_the_map);
}

#[test]
fn every_arrow_is_allowed() {
    assert_rule(rules::arrows_are_allowed);
}

#[test]
fn pure_crates_do_no_io_and_read_no_clock() {
    assert_rule(rules::pure_crates_are_pure);
}

#[test]
fn every_dependency_has_its_reason() {
    assert_rule(rules::dependencies_have_reasons);
}

#[test]
fn every_dependency_is_used() {
    assert_rule(rules::dependencies_are_used);
}

const MAP: &str = "
| crate | its one sentence | may depend on | never contains |
|---|---|---|---|
| `core` | pure | – | IO |
| `edge` | not | `core` | judgement |

Pure: `core`.

| dependency | where | why |
|---|---|---|
| `tokio` | `edge` | sockets |
| `proptest` | `core` (tests) | cuts |
";

fn sample_workspace() -> Workspace {
    Workspace::new([
        (
            "core",
            &["proptest"][..],
            "fn f() {}\n#[cfg(test)]\nmod tests {\n    use std::io;\n    use std::fs;\n    proptest!();\n}\n",
        ),
        ("edge", &["core", "tokio"], "use core::f;\nuse std::net::TcpStream;\nuse tokio::net;\n"),
    ])
}

/// Applies all rules to the sample workspace after `change`.
fn check(change: impl FnOnce(&mut String, &mut Workspace), expected: expect_test::Expect) {
    let (mut map, mut workspace) = (MAP.to_owned(), sample_workspace());
    change(&mut map, &mut workspace);
    let map = Map::parse(&map);
    let problems: Vec<String> = [
        rules::crates_are_on_the_map,
        rules::arrows_are_allowed,
        rules::pure_crates_are_pure,
        rules::dependencies_have_reasons,
        rules::dependencies_are_used,
    ]
    .into_iter()
    .flat_map(|rule| rule(&map, &workspace))
    .collect();
    expected.assert_eq(&problems.join("\n"));
}

#[test]
fn the_sample_workspace_has_no_problem() {
    check(|_, _| {}, expect![""]);
}

#[test]
fn a_crate_without_a_row_is_named() {
    check(
        |map, _| *map = map.replace("| `edge` | not | `core` | judgement |\n", ""),
        expect![[r#"
            crate `edge` has no row in the table of crates
            `edge` depends on `core`, which its row does not allow"#]],
    );
}

#[test]
fn a_row_without_a_crate_is_named() {
    check(
        |map, _| *map = map.replace("IO |\n", "IO |\n| `attic` | empty | `roof` | anything |\n"),
        expect![[r#"
            the table of crates has `attic`, which is not a crate
            the row of `attic` allows `roof`, which is not a crate"#]],
    );
}

#[test]
fn an_arrow_that_is_not_allowed_is_named() {
    check(
        |_, workspace| workspace.crate_mut("core").depend_on("edge", "use edge;"),
        expect!["`core` depends on `edge`, which its row does not allow"],
    );
}

#[test]
fn a_pure_crate_with_io_is_named() {
    check(
        |map, workspace| {
            *map = map.replace("`edge` | sockets", "`core`, `edge` | sockets");
            workspace
                .crate_mut("core")
                .depend_on("tokio", "use std::{io, fs::File};\nlet now = Instant::now(); tokio();");
        },
        expect![[r#"
            pure `core` depends on `tokio`
            pure `core` uses `fs` in `core.rs`
            pure `core` uses `Instant` in `core.rs`"#]],
    );
}

#[test]
fn a_map_without_pure_crates_is_refused() {
    check(|map, _| *map = map.replace("Pure: `core`.", ""), expect!["the map lists no pure crate"]);
}

#[test]
fn a_dependency_without_a_reason_is_named() {
    check(
        |_, workspace| workspace.crate_mut("edge").depend_on("serde", "use serde;"),
        expect!["`serde` is used by `edge`, but the table of dependencies lists no crate"],
    );
}

#[test]
fn a_reason_without_a_dependency_is_named() {
    check(
        |map, _| *map = map.replace("| sockets |", "| sockets |\n| `left-pad` | `edge` | looks |"),
        expect!["`left-pad` is used by no crate, but the table of dependencies lists `edge`"],
    );
}

#[test]
fn a_dependency_that_no_source_names_is_named() {
    check(
        |map, workspace| {
            *map = map.replace("| sockets |", "| sockets |\n| `serde-json` | `edge` | looks |");
            workspace.crate_mut("edge").depend_on("serde-json", "// serde_json would be nice");
        },
        expect!["`edge` declares `serde-json`, but no source uses it"],
    );
}
