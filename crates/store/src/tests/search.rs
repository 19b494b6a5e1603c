//! Search: words without operators, ranking, and an up-to-date index.

use super::*;

async fn with_messages(texts: &[&str]) -> Room {
    let room = room();
    room.store.start_run(main_run("m", "start"), ME).await.expect("started");
    let messages = texts.iter().map(|text| prompt(text)).collect();
    room.store.append(&run_id("m"), messages).await.expect("appended");
    room
}

fn snippets(store: &Store, query: &str) -> Vec<String> {
    let hits = store.main().search(query, 10).expect("a query is never an error");
    hits.into_iter().map(|hit| hit.snippet).collect()
}

#[tokio::test]
async fn any_query_is_taken_as_words() {
    let room = with_messages(&[r#"she said "hello" to C++ and foo-bar* (twice) NOT once"#]).await;
    for query in [
        "",
        " ",
        "\"",
        "\"\"",
        "'",
        "*",
        "**",
        "(",
        ")",
        "((",
        "^",
        "-",
        "+",
        "AND",
        "OR",
        "NOT",
        "NEAR",
        "NEAR(",
        "a AND",
        "text:",
        "text : hello",
        "{text}:x",
        "x*y",
        "\\",
        "\0",
        "a\0b",
        "%",
        ";",
        "--",
        "/*",
        "\u{202e}x",
        "🦀",
        "𝒳",
        "\"; DROP TABLE runs; --",
        "hello\"world",
        "col:\"x",
        "a^b",
        "#",
        "?1",
        "$x",
    ] {
        let _ = snippets(&room.store, query);
    }
    for query in ["hello", "\"hello\"", "HELLO", "c++", "foo-bar*", "(twice)", "not", "said NOT once", "hel"]
    {
        assert_eq!(snippets(&room.store, query).len(), 1, "{query}");
    }
    for query in ["goodbye", "ello", "\"to hello\"", "\"hell to\"", "\"hello t\""] {
        assert_eq!(snippets(&room.store, query), Vec::<String>::new(), "{query}");
    }
    for query in ["hello goodbye", "NOT goodbye", "\"hello to c\"", "\"hello t\"*", "“hello to”", "hell*"]
    {
        assert_eq!(snippets(&room.store, query).len(), 1, "{query}");
    }
    assert_eq!(room.store.said("m").len(), 2);
}

#[tokio::test]
async fn the_best_comes_first_with_the_words_around() {
    let filler = "nothing of interest here ".repeat(20);
    let texts = [
        &format!("{filler} one lobster {filler}"),
        "lobster, lobster and again lobster",
        "no shellfish at all",
        &format!("{filler} a lobster and another lobster {filler}"),
    ];
    let room = with_messages(&texts).await;
    let found = room.store.main().search("lobster", 10).expect("searched");
    assert_eq!(found.iter().map(|hit| hit.seq).collect::<Vec<_>>(), [Seq(3), Seq(5), Seq(2)]);
    assert_eq!(found[0].snippet, "[lobster], [lobster] and again [lobster]");
    assert!(found[2].snippet.contains("one [lobster] nothing") && found[2].snippet.len() < 150);
    assert_eq!((&found[0].title[..], found[0].role), ("about m", Role::User));
    assert_eq!(room.store.main().search("lobster", 1).expect("searched").len(), 1);
    assert_eq!(snippets(&room.store, "Löbster").len(), 3, "accents and case do not matter");
}

#[tokio::test]
async fn any_word_finds_and_more_words_rank_higher() {
    let room = with_messages(&[
        "the parser has a bug in its lexer",
        "the parser is fast",
        "parsers are everywhere",
        "nothing at all",
        "and here neither",
        "a last line",
    ])
    .await;
    let found = |query: &str| {
        let hits = room.store.main().search(query, 10).expect("searched");
        hits.into_iter().map(|hit| (hit.number, hit.seq)).collect::<Vec<_>>()
    };
    assert_eq!(found("parser bug unheardof"), [(2, Seq(2)), (3, Seq(3)), (4, Seq(4))], "whole words first");
    assert_eq!(found("\"parser is\""), [(3, Seq(3))]);
    assert_eq!(found("\"bug parser\""), []);
    assert_eq!(found("unheardof"), []);
}

#[tokio::test]
async fn a_query_is_never_an_error() {
    let room = with_messages(&["hello to everyone"]).await;
    let pieces = [
        "\"", "*", "(", ")", "^", ":", "{", "}", "-", "+", "OR", "AND", "NOT", "NEAR(", ",", "hello", "\0",
        "\u{301}", "“", "é", "\u{fffd}", "'", ";", " ", "  \t", "𝒳", "\u{200b}",
    ];
    for query in
        pieces.iter().flat_map(|a| pieces.iter().flat_map(move |b| pieces.map(|c| format!("{a}{b}{c}"))))
    {
        let _ = snippets(&room.store, &query);
    }
    for long in ["hello ".repeat(50_000), "\"".repeat(50_000), "(".repeat(50_000), "\"a ".repeat(20_000)] {
        let _ = snippets(&room.store, &long);
    }
}

#[tokio::test]
async fn the_search_index_is_up_to_date_for_every_reader() {
    let room = with_messages(&["first"]).await;
    assert_eq!(snippets(&room.store, "first").len(), 1);
    for n in 0..300 {
        room.store.append(&run_id("m"), vec![prompt(&format!("later {n}"))]).await.expect("appended");
    }
    assert_eq!(room.store.main().search("later", 1000).expect("searched").len(), 300);
    // The newest row is deleted. Its number must not count as indexed when it is used again.
    room.store.start_run(main_run("gone", "gone"), ME).await.expect("started");
    assert_eq!(snippets(&room.store, "gone").len(), 1);
    room.store.delete_run(&run_id("gone")).await.expect("deleted");
    assert_eq!(snippets(&room.store, "gone").len(), 0);
    room.store.append(&run_id("m"), vec![prompt("newest")]).await.expect("appended");
    assert_eq!(snippets(&room.store, "newest").len(), 1);
    let check = "INSERT INTO message_search (message_search, rank) VALUES ('integrity-check', 1)";
    room.store.write(move |conn| Ok(conn.execute(check, [])?)).await.expect("index and messages agree");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_writer_lets_the_index_follow() {
    let room = with_messages(&["word"]).await;
    let behind = || room.store.read_all(|conn| Ok(crate::index::is_outdated(conn)?)).expect("read");
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    while behind() {
        assert!(std::time::Instant::now() < deadline, "nobody followed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(snippets(&room.store, "word").len(), 1);
}
