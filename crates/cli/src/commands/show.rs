//! `offshoot show`: what a recording holds.

use std::path::PathBuf;
use std::process::ExitCode;

use recording::{Recording, State};
use serde_json::json;
use wire::{Body, Ending, Exchange};

use crate::commands::proxy::counted;
use crate::failure::{Kind, OrFail};

/// Show what a recording holds
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The recording's folder
    recording: PathBuf,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// One exchange, in short.
struct Row {
    id: String,
    method: String,
    url: String,
    status: Option<u16>,
    /// `None` where the recording ended first.
    ending: Option<Ending>,
    request_bytes: Option<u64>,
    response_bytes: Option<u64>,
    error: Option<String>,
    started_us: u64,
    took_us: Option<u64>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let dir = &arguments.recording;
    let hint = || "give the folder of a recording, the one that `--out` named".to_owned();
    let recording = Recording::open(dir).or_fail_with(Kind::Usage, hint)?;
    let damage = recording.damage().or_fail(Kind::Outside)?;
    let mut rows = Vec::with_capacity(recording.len());
    for (n, exchange) in recording.exchanges().enumerate() {
        rows.push(row(&recording, n, exchange.or_fail(Kind::Outside)?));
    }
    match arguments.format {
        Format::Text => print_text(&recording, &rows, &damage),
        Format::Json => println!("{}", as_json(&recording, &rows, &damage)),
    }
    Ok(ExitCode::from(if damage.is_empty() { 0 } else { Kind::Verdict as u8 }))
}

fn row(recording: &Recording, n: usize, exchange: Exchange) -> Row {
    let (started_us, ended_us) = recording.times(n).unwrap_or_default();
    Row {
        id: exchange.id.to_string(),
        method: exchange.request.method,
        url: exchange.request.url,
        status: exchange.response.as_ref().map(|response| response.status),
        ending: recording.has_ended(n).then_some(exchange.ending),
        request_bytes: size(&exchange.request.body),
        response_bytes: exchange.response.as_ref().and_then(|response| size(&response.body)),
        error: recording.error(n).map(str::to_owned),
        started_us,
        took_us: ended_us.map(|ended| ended.saturating_sub(started_us)),
    }
}

fn size(body: &Body) -> Option<u64> {
    match body {
        Body::Here(bytes) => Some(bytes.len() as u64),
        Body::Blob { bytes, .. } => Some(*bytes),
        Body::Lost => None,
    }
}

fn print_text(recording: &Recording, rows: &[Row], damage: &[String]) {
    match recording.state() {
        State::Sealed => println!("sealed, {}", counted(rows.len() as u64)),
        State::Unsealed { because } => println!("unsealed, {}: {because}", counted(rows.len() as u64)),
    }
    for row in rows {
        let status = row.status.map_or("-".to_owned(), |status| status.to_string());
        let took = row.took_us.map_or("-".to_owned(), |us| format!("{:.1} ms", us as f64 / 1e3));
        println!(
            "{}  {:<4} {status:>3}  {:<15} {took:>12}  {}",
            row.id,
            row.method,
            ending(row.ending),
            sizes(row)
        );
        println!("         {}", row.url);
        if let Some(error) = &row.error {
            println!("         {error}");
        }
    }
    if recording.torn_bytes() > 0 {
        println!("the last {} bytes of the log are not a whole record", recording.torn_bytes());
    }
    for loss in recording.manifest().map_or(&[][..], |manifest| &manifest.lost) {
        println!("not kept: {loss}");
    }
    for file in recording.manifest().map_or(&[][..], |manifest| &manifest.suspicious) {
        println!("random, of no known kind: `{file}`");
    }
    for file in damage {
        println!("damaged: {file}");
    }
}

fn ending(ending: Option<Ending>) -> &'static str {
    match ending {
        Some(Ending::Complete) => "complete",
        Some(Ending::CutByHarness) => "cut by harness",
        Some(Ending::CutByUpstream) => "cut by upstream",
        Some(Ending::NoResponse) => "no response",
        None => "in flight",
    }
}

fn sizes(row: &Row) -> String {
    let kb =
        |bytes: Option<u64>| bytes.map_or("-".to_owned(), |bytes| format!("{:.1} KB", bytes as f64 / 1e3));
    format!("{} up, {} down", kb(row.request_bytes), kb(row.response_bytes))
}

fn as_json(recording: &Recording, rows: &[Row], damage: &[String]) -> serde_json::Value {
    let because = match recording.state() {
        State::Sealed => None,
        State::Unsealed { because } => Some(because),
    };
    let exchanges = rows.iter().map(|row| {
        json!({
            "request_id": row.id, "method": row.method, "url": row.url, "status": row.status,
            "ending": row.ending, "request_bytes": row.request_bytes, "response_bytes": row.response_bytes, "error": row.error,
            "started_us": row.started_us, "took_us": row.took_us,
        })
    });
    json!({
        "format": 1,
        "sealed": because.is_none(),
        "unsealed_because": because,
        "exchanges": exchanges.collect::<Vec<_>>(),
        "torn_bytes": recording.torn_bytes(),
        "lost": recording.manifest().map(|manifest| &manifest.lost),
        "suspicious": recording.manifest().map(|manifest| &manifest.suspicious),
        "damaged": damage,
    })
}
