//! `ARCHITECTURE.md` is true: the crates, the arrows between them, what the pure ones stay free of, and
//! what each dependency is for.
//!
//! [`rules`] holds one function a rule, each from the map and the workspace to what is wrong. Here they are
//! put to the real ones, and shown to fail on a small house in which one thing at a time is broken.

mod map;
mod rules;
mod workspace;

use expect_test::expect;

use map::Map;
use workspace::Workspace;

#[track_caller]
fn holds(rule: fn(&Map, &Workspace) -> Vec<String>) {
    let wrong = rule(&Map::read(), &Workspace::read());
    assert!(wrong.is_empty(), "ARCHITECTURE.md and the workspace disagree:\n- {}", wrong.join("\n- "));
}

#[test]
fn every_crate_is_on_the_map_and_nothing_else() {
    holds(rules::crates_are_on_the_map);
}

#[test]
fn every_arrow_is_allowed() {
    holds(rules::arrows_are_allowed);
}

#[test]
fn pure_crates_do_no_io_and_read_no_clock() {
    holds(rules::pure_crates_are_pure);
}

#[test]
fn every_dependency_has_its_reason() {
    holds(rules::dependencies_have_reasons);
}

#[test]
fn every_dependency_is_used() {
    holds(rules::dependencies_are_used);
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

fn house() -> Workspace {
    Workspace::of([
        (
            "core",
            &["proptest"][..],
            "fn f() {}\n#[cfg(test)]\nmod tests {\n    use std::io;\n    use std::fs;\n    proptest!();\n}\n",
        ),
        ("edge", &["core", "tokio"], "use core::f;\nuse std::net::TcpStream;\nuse tokio::net;\n"),
    ])
}

/// Puts all rules to the small house after `change`.
fn check(change: impl FnOnce(&mut String, &mut Workspace), expected: expect_test::Expect) {
    let (mut map, mut house) = (MAP.to_owned(), house());
    change(&mut map, &mut house);
    let map = Map::parse(&map);
    let wrong: Vec<String> = [
        rules::crates_are_on_the_map,
        rules::arrows_are_allowed,
        rules::pure_crates_are_pure,
        rules::dependencies_have_reasons,
        rules::dependencies_are_used,
    ]
    .into_iter()
    .flat_map(|rule| rule(&map, &house))
    .collect();
    expected.assert_eq(&wrong.join("\n"));
}

#[test]
fn the_small_house_is_in_order() {
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
            the table of crates has `attic`, which is no crate
            the row of `attic` allows `roof`, which is no crate"#]],
    );
}

#[test]
fn an_arrow_that_is_not_allowed_is_named() {
    check(
        |_, house| house.crate_mut("core").depend_on("edge", "use edge;"),
        expect!["`core` depends on `edge`, which its row does not allow"],
    );
}

#[test]
fn a_pure_crate_with_io_is_named() {
    check(
        |map, house| {
            *map = map.replace("`edge` | sockets", "`core`, `edge` | sockets");
            house
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
fn a_map_that_calls_nothing_pure_is_refused() {
    check(|map, _| *map = map.replace("Pure: `core`.", ""), expect!["the map calls no crate pure"]);
}

#[test]
fn a_dependency_without_a_reason_is_named() {
    check(
        |_, house| house.crate_mut("edge").depend_on("serde", "use serde;"),
        expect!["`serde` is used by `edge`, but the table of dependencies says nowhere"],
    );
}

#[test]
fn a_reason_without_a_dependency_is_named() {
    check(
        |map, _| *map = map.replace("| sockets |", "| sockets |\n| `left-pad` | `edge` | looks |"),
        expect!["`left-pad` is used by nobody, but the table of dependencies says `edge`"],
    );
}

#[test]
fn a_dependency_that_no_source_names_is_named() {
    check(
        |map, house| {
            *map = map.replace("| sockets |", "| sockets |\n| `serde-json` | `edge` | looks |");
            house.crate_mut("edge").depend_on("serde-json", "// serde_json would be nice");
        },
        expect!["`edge` declares `serde-json`, but no source of it names it"],
    );
}
