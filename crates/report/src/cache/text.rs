//! Terminal output of `offshoot cache`: complete at eighty columns, the most important parts at fewer.

use ::cache::{ByteDiff, CacheTotals, Explanation, group_digits};

use super::{AccuracyCounts, CacheView, UnexplainedRequests};
use crate::style::Tone;
use crate::table::{Column, DropRule, Table};
use crate::text::{USUAL_WIDTH, fit, plain, short, shown_value, wrap};

/// Maximum width of a lane's name.
const LANE: usize = 16;
/// Label of the sum over all lanes.
const ALL: &str = "together";
/// Indentation of lines about the request above.
const INDENT: &str = "     ";

/// Renders the explained cache for people.
pub fn cache_text(of: &CacheView<'_>, width: usize) -> String {
    let mut lines = Vec::new();
    if of.explained.requests.is_empty() {
        lines.push("no model requests".to_owned());
        lines.extend(left_out(of, width));
        return lines.join("\n") + "\n";
    }
    let names = of.explained.lanes.iter().map(|(lane, _)| lane.chars().count());
    let lane = names.max().unwrap_or(0).clamp(ALL.len(), LANE);
    let mut rows = requests(of, lane).wrapped(width).into_iter();
    lines.extend(rows.next());
    for (request, row) in of.explained.requests.iter().zip(rows) {
        lines.push(row);
        for text in describe_miss(request, of.shown.get(&request.id)) {
            lines.push(shown_value(&format!("{INDENT}{text}"), INDENT.len() + "was ".len(), width));
        }
    }
    lines.push(String::new());
    lines.extend(sums(of, lane).folded(width));
    lines.extend(left_out(of, width));
    lines.push(String::new());
    let rules: Vec<String> = of.explained.rules.iter().map(|(name, of)| format!("{name} ({of})")).collect();
    let sure = AccuracyCounts::of(of.explained).in_words();
    for (head, text) in
        [("confidence: ", sure.as_str()), ("rules: ", &rules.join("; ")), ("list prices of ", of.prices_of)]
    {
        lines.push(wrap(&format!("{head}{text}"), head.len(), width));
    }
    lines.join("\n") + "\n"
}

/// Describes the requests that are missing in the sums.
fn left_out(of: &CacheView<'_>, width: usize) -> Vec<String> {
    let UnexplainedRequests { requests, usage } = of.left_out;
    if requests == 0 {
        return Vec::new();
    }
    let count = if requests == 1 { "1 request".to_owned() } else { format!("{requests} requests") };
    let written = usage.cache_write_5m + usage.cache_write_1h;
    let [read, written, input] = [usage.cache_read, written, usage.input].map(short);
    let lines = [
        format!("not in the sums: {count} known only by usage"),
        format!("(forks without a transcript): {read} read, {written} written, {input} input"),
    ];
    match width < USUAL_WIDTH {
        true => vec![wrap(&lines.join(" "), 0, width)],
        false => lines.map(|line| fit(&line, width)).to_vec(),
    }
}

/// Cuts the start of a lane's name. Runs of one tree differ at the end.
fn cut(name: &str, width: usize) -> String {
    let length = name.chars().count();
    if length <= width {
        return name.to_owned();
    }
    let kept: String = name.chars().skip(length + 1 - width).collect();
    format!("…{kept}")
}

/// Builds the table of requests. On narrow terminals, turn and plain input are dropped first. The reason
/// wraps to a line of its own before the amounts read and written are dropped.
fn requests(of: &CacheView<'_>, lane: usize) -> Table {
    Table {
        columns: vec![
            Column::text("LANE", lane),
            Column::number("TURN", 4),
            Column::text("REQUEST", 7),
            Column::number("READ", 6),
            Column::number("WRITE", 6),
            Column::number("INPUT", 6),
            Column::number("USAGE R+W", 12),
            Column::text("WHY NOT MORE", 0),
        ],
        rows: of.explained.requests.iter().map(|request| row(request, lane)).collect(),
        gap: 1,
        drop_order: vec![
            DropRule::spaces(),
            DropRule::column("TURN"),
            DropRule::column("INPUT"),
            DropRule::column_for("WRITE", 0),
            DropRule::column_for("USAGE R+W", 0),
        ],
    }
}

fn row(request: &Explanation, lane: usize) -> Vec<String> {
    let said = request.predicted;
    let written = said.cache_write_5m + said.cache_write_1h;
    let usage = request.reported.map_or("-".to_owned(), |usage| {
        let written = usage.cache_write_5m + usage.cache_write_1h;
        format!("{}+{}", short(usage.cache_read), short(written))
    });
    vec![
        cut(&plain(&request.lane), lane),
        request.turn.to_string(),
        request.id.to_string(),
        short(said.cache_read),
        short(written),
        short(said.input),
        usage,
        Tone::Warning.paint(request.reason.map_or("", ::cache::Reason::name)),
    ]
}

/// Describes a broken prefix and its cost.
fn describe_miss(request: &Explanation, shown: Option<&ByteDiff>) -> Vec<String> {
    let Some(miss) = &request.miss else { return Vec::new() };
    let mut lines = Vec::new();
    let pointer = shown.map_or(&miss.pointer, |shown| &shown.pointer);
    let after = request.after.as_ref().map_or(String::new(), |after| format!(", against {after}"));
    match &miss.at_stake {
        None => {
            lines.push(format!("+{} tokens{}{after}", group_digits(miss.tokens), cost(miss.usd)));
            lines.push(format!("block {} at {}", miss.block, plain(pointer)));
        }
        Some(stake) => {
            lines.push(format!(
                "{} at {}: deferred, so not in the prefix",
                plain(&stake.tool),
                plain(pointer)
            ));
            let cost = cost(stake.usd);
            lines.push(format!("without deferral: +{} tokens{cost}", group_digits(stake.tokens)));
        }
    }
    if let Some(shown) = shown {
        lines.push(Tone::Bad.paint(&format!("was {}", plain(&shown.previous))));
        lines.push(Tone::Good.paint(&format!("now {}", plain(&shown.current))));
    }
    lines
}

fn cost(usd: Option<f64>) -> String {
    usd.map_or(String::new(), |usd| format!(", ${usd:.4}"))
}

/// Builds the table of sums by lane. Costs are dropped last.
fn sums(of: &CacheView<'_>, lane: usize) -> Table {
    let lanes = of.explained.lanes.iter().map(|(name, totals)| (name.as_str(), totals));
    let all = (of.explained.lanes.len() > 1).then_some((ALL, &of.explained.total));
    let heads = [
        ("REQUESTS", 8),
        ("READ", 6),
        ("WRITE", 6),
        ("INPUT", 6),
        ("MISSED", 6),
        ("INPUT $", 8),
        ("USAGE $", 8),
        ("PERFECT $", 9),
    ];
    let mut columns = vec![Column::text("LANE", lane)];
    columns.extend(heads.map(|(head, least)| Column::number(head, least)));
    let mut drop_order = vec![DropRule::spaces()];
    drop_order.extend(["REQUESTS", "INPUT", "WRITE", "READ", "MISSED"].map(DropRule::column));
    let rows = lanes.chain(all).map(|(name, totals)| sum(name, totals, lane)).collect();
    Table { columns, rows, gap: 1, drop_order }
}

fn sum(name: &str, totals: &CacheTotals, lane: usize) -> Vec<String> {
    let dollars = |usd: Option<f64>| usd.map_or("?".to_owned(), |usd| format!("{usd:.4}"));
    let said = totals.predicted;
    let reported = match totals.reported.input_total() {
        0 => "-".to_owned(),
        _ => dollars(totals.reported_usd),
    };
    vec![
        cut(&plain(name), lane),
        totals.requests.to_string(),
        short(said.cache_read),
        short(said.cache_write_5m + said.cache_write_1h),
        short(said.input),
        short(totals.missed),
        dollars(totals.predicted_usd),
        reported,
        dollars(totals.perfect_usd),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use ::cache::{CacheMiss, CacheReport, Confidence, Reason, Section};
    use expect_test::expect;
    use session::{RequestId, Usage};

    use super::*;
    use crate::terminal::terminal_text;

    /// A lane that starts, one with a broken prefix, and one without a miss.
    fn render(width: usize) -> String {
        let id = |n: u32| RequestId::new(format!("r00000{n}"));
        let request = |n: u32, lane: &str, reason: Option<Reason>| {
            let usage = Usage { input: 70, cache_read: 13_500, cache_write_5m: 1_200, ..Usage::default() };
            Explanation {
                id: id(n),
                lane: lane.to_owned(),
                fork_of: None,
                turn: n,
                model: "claude-sonnet-5-5".to_owned(),
                predicted: usage,
                reported: Some(usage),
                perfect: usage,
                confidence: Confidence::Exact,
                reason,
                miss: None,
                is_disproved: false,
                after: None,
                repeated: 0,
            }
        };
        let mut broke = request(2, "sub-1", Some(Reason::MessagesChanged));
        broke.miss = Some(CacheMiss {
            block: 3,
            section: Section::Messages,
            pointer: "/messages/3/content/0/content/1/text".to_owned(),
            spans: [None, None],
            tokens: 1_985,
            usd: Some(0.0046),
            at_stake: None,
        });
        broke.after = Some(id(1));
        let text = "It is late. Keep the cutting wet. Keep the cutting wet.".to_owned();
        let shown = ByteDiff {
            pointer: "/messages/3/content/0/text".to_owned(),
            current: text.clone(),
            previous: text,
        };
        let requests = vec![request(1, "main", Some(Reason::Cold)), broke, request(3, "sub-2", None)];
        let lanes =
            requests.iter().map(|it| (it.lane.clone(), CacheTotals::of(std::iter::once(it)))).collect();
        let total = CacheTotals::of(requests.iter());
        let rules = vec![("Anthropic", "2026-08"), ("OpenAI", "2026-08"), ("Google", "2026-08")];
        let explained = CacheReport { requests, lanes, total, rules, ..CacheReport::default() };
        let of = CacheView {
            explained: &explained,
            shown: &HashMap::from([(id(2), shown)]),
            prices_of: "2026-11",
            left_out: UnexplainedRequests { requests: 1, ..UnexplainedRequests::default() },
        };
        terminal_text(&cache_text(&of, width), false)
    }

    #[test]
    fn eighty_columns_have_everything() {
        expect![[r#"
            LANE     TURN REQUEST   READ  WRITE  INPUT    USAGE R+W WHY NOT MORE
            main        1 r000001  13.5k   1.2k     70   13.5k+1.2k cold
            sub-1       2 r000002  13.5k   1.2k     70   13.5k+1.2k messages_changed
                 +1,985 tokens, $0.0046, against r000001
                 block 3 at /messages/3/content/0/text
                 was It is late. Keep the cutting wet. Keep the cutting wet.
                 now It is late. Keep the cutting wet. Keep the cutting wet.
            sub-2       3 r000003  13.5k   1.2k     70   13.5k+1.2k

            LANE     REQUESTS   READ  WRITE  INPUT MISSED  INPUT $  USAGE $ PERFECT $
            main            1  13.5k   1.2k     70      0   0.0058   0.0058    0.0058
            sub-1           1  13.5k   1.2k     70   2.0k   0.0058   0.0058    0.0058
            sub-2           1  13.5k   1.2k     70      0   0.0058   0.0058    0.0058
            together        3  40.5k   3.6k    210   2.0k   0.0175   0.0175    0.0175
            not in the sums: 1 request known only by usage
            (forks without a transcript): 0 read, 0 written, 0 input

            confidence: exact in 3 requests
            rules: Anthropic (2026-08); OpenAI (2026-08); Google (2026-08)
            list prices of 2026-11
        "#]]
        .assert_eq(&render(80));
        assert_eq!(render(80), render(usize::MAX));
    }

    #[test]
    fn at_sixty_the_reason_stays_and_so_do_the_costs() {
        expect![[r#"
            LANE  REQUEST  READ WRITE INPUT  USAGE R+W WHY NOT MORE
            main  r000001 13.5k  1.2k    70 13.5k+1.2k cold
            sub-1 r000002 13.5k  1.2k    70 13.5k+1.2k messages_changed
                 +1,985 tokens, $0.0046, against r000001
                 block 3 at /messages/3/content/0/text
                 was It is late. Keep the cutting wet. Keep the cutting
                     wet.
                 now It is late. Keep the cutting wet. Keep the cutting
                     wet.
            sub-2 r000003 13.5k  1.2k    70 13.5k+1.2k

            LANE      READ WRITE INPUT MISSED INPUT $ USAGE $ PERFECT $
            main     13.5k  1.2k    70      0  0.0058  0.0058    0.0058
            sub-1    13.5k  1.2k    70   2.0k  0.0058  0.0058    0.0058
            sub-2    13.5k  1.2k    70      0  0.0058  0.0058    0.0058
            together 40.5k  3.6k   210   2.0k  0.0175  0.0175    0.0175
            not in the sums: 1 request known only by usage (forks
            without a transcript): 0 read, 0 written, 0 input

            confidence: exact in 3 requests
            rules: Anthropic (2026-08); OpenAI (2026-08); Google
                   (2026-08)
            list prices of 2026-11
        "#]]
        .assert_eq(&render(60));
        assert!(render(60).lines().all(|line| line.chars().count() <= 60));
    }

    #[test]
    fn at_forty_the_reason_has_a_line_of_its_own() {
        expect![[r#"
            LANE  REQUEST  READ WRITE  USAGE R+W
                 WHY NOT MORE
            main  r000001 13.5k  1.2k 13.5k+1.2k
                 cold
            sub-1 r000002 13.5k  1.2k 13.5k+1.2k
                 messages_changed
                 +1,985 tokens, $0.0046, against
                     r000001
                 block 3 at
                     /messages/3/content/0/text
                 was It is late. Keep the cutting
                     wet. Keep the cutting wet.
                 now It is late. Keep the cutting
                     wet. Keep the cutting wet.
            sub-2 r000003 13.5k  1.2k 13.5k+1.2k

            LANE     INPUT $ USAGE $ PERFECT $
            main      0.0058  0.0058    0.0058
            sub-1     0.0058  0.0058    0.0058
            sub-2     0.0058  0.0058    0.0058
            together  0.0175  0.0175    0.0175
            not in the sums: 1 request known only by
            usage (forks without a transcript): 0
            read, 0 written, 0 input

            confidence: exact in 3 requests
            rules: Anthropic (2026-08); OpenAI
                   (2026-08); Google (2026-08)
            list prices of 2026-11
        "#]]
        .assert_eq(&render(40));
        assert!(render(40).lines().all(|line| line.chars().count() <= 40));
    }
}
