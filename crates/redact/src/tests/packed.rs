//! Secrets inside of archives, compressed files, documents, pictures and databases.

use base64::engine::general_purpose::STANDARD;
use wire::encoding::encode;

use super::*;

const SECRET: &str = "q7Zt9Lm2Xc4Vb6Np8Ks1";

type Pack = fn(&[u8]) -> Vec<u8>;

fn with(coding: &str, bytes: &[u8]) -> Vec<u8> {
    encode(coding, bytes).expect("a known coding")
}

fn deflate(bytes: &[u8]) -> Vec<u8> {
    let zlib = with("deflate", bytes);
    zlib[2..zlib.len() - 4].to_vec()
}

fn zip(method: u8, data: &[u8]) -> Vec<u8> {
    let mut entry = b"PK\x03\x04\x14\0\0\0".to_vec();
    entry.extend([method, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
    entry.extend((data.len() as u32).to_le_bytes());
    entry.extend([0, 1, 0, 0, 5, 0, 0, 0]);
    [&entry[..], b"a.env", data, b"PK\x05\x06\0\0\0\0\0\0\0\0"].concat()
}

fn tar(data: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..5].copy_from_slice(b"a.env");
    header[257..263].copy_from_slice(b"ustar\0");
    let padding = vec![0; 512 - data.len() % 512];
    [&header[..], data, &padding, &[0; 1024]].concat()
}

fn png(chunk: &[u8]) -> Vec<u8> {
    [b"\x89PNG\r\n\x1a\n\0\0\0\x40zTXtnote\0\0", chunk, b"\0\0\0\0IEND\xae\x42\x60\x82"].concat()
}

fn pdf(stream: &[u8]) -> Vec<u8> {
    [b"%PDF-1.7\n\xe2\xe3\n1 0 obj\n<</Filter/FlateDecode>>\nstream\r\n", stream, b"\nendstream\n%%EOF"]
        .concat()
}

fn utf16(text: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(text).encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// Makes a database whose only row continues on other pages. The text is cut by their borders.
fn sqlite(text: &[u8]) -> Vec<u8> {
    const SIZE: usize = 512;
    let row = [&[b'x'; 3 * SIZE - 50][..], text, &[b'y'; SIZE]].concat();
    let least = (SIZE - 12) * 32 / 255 - 23;
    let fitting = least + (row.len() - least) % (SIZE - 4);
    let local = if fitting <= SIZE - 35 { fitting } else { least };
    let mut first = vec![0; SIZE];
    first[..16].copy_from_slice(b"SQLite format 3\0");
    first[16..18].copy_from_slice(&(SIZE as u16).to_be_bytes());
    let mut leaf = vec![0; SIZE];
    let cell = SIZE - local - 4 - 3;
    leaf[0] = 0x0d;
    leaf[4] = 1;
    leaf[8..10].copy_from_slice(&(cell as u16).to_be_bytes());
    leaf[cell..cell + 3].copy_from_slice(&[0x80 | (row.len() >> 7) as u8, (row.len() & 0x7f) as u8, 1]);
    leaf[cell + 3..cell + 3 + local].copy_from_slice(&row[..local]);
    leaf[SIZE - 4..].copy_from_slice(&3u32.to_be_bytes());
    let mut file = [first, leaf].concat();
    let parts: Vec<&[u8]> = row[local..].chunks(SIZE - 4).collect();
    for (index, part) in parts.iter().enumerate() {
        let next = if index + 1 < parts.len() { index as u32 + 4 } else { 0 };
        let mut page = [&next.to_be_bytes(), *part].concat();
        page.resize(SIZE, 0);
        file.extend(page);
    }
    file
}

const CONTAINERS: &[(&str, Pack)] = &[
    ("gzip", |data| with("gzip", data)),
    ("zlib, as an object of git", |data| with("deflate", &[b"blob 99\0", data].concat())),
    ("zstd", |data| with("zstd", data)),
    ("brotli", |data| with("br", data)),
    ("deflate", deflate),
    ("zip", |data| zip(8, &deflate(data))),
    ("stored zip", |data| zip(0, data)),
    ("tar", tar),
    ("tar.gz", |data| with("gzip", &tar(data))),
    ("tar.zst in zip", |data| zip(0, &with("zstd", &tar(data)))),
    ("gzip in gzip in zip", |data| zip(8, &deflate(&with("gzip", &with("gzip", data))))),
    ("two members of gzip", |data| [with("gzip", b"first"), with("gzip", data)].concat()),
    ("second entry of a zip", |data| [zip(8, &deflate(b"first")), zip(8, &deflate(data))].concat()),
    ("pdf", |data| pdf(&with("deflate", data))),
    ("png", |data| png(&with("deflate", data))),
    ("sqlite", sqlite),
    ("sqlite in gzip", |data| with("gzip", &sqlite(data))),
    ("gzip of UTF-16", |data| with("gzip", &utf16(data))),
    ("gzip in base64 in json in gzip", |data| {
        with("gzip", format!("{{\"data\":\"{}\"}}", STANDARD.encode(with("gzip", data))).as_bytes())
    }),
    ("data before zip", |data| [b"\x7fELF\0\0\0\0".to_vec(), zip(8, &deflate(data))].concat()),
];

fn knowing() -> Redactor {
    let mut redactor = redactor();
    redactor.learn("the environment", SECRET.as_bytes());
    redactor
}

fn text() -> Vec<u8> {
    let noise: String = (0..40).map(|n| format!("line {n} {}\n", n * n * 7919)).collect();
    format!("{noise}it is {SECRET} here\n{noise}").into_bytes()
}

#[test]
fn a_known_value_inside_of_data_is_found() {
    let clean = String::from_utf8(text()).expect("text").replace(SECRET, "a-harmless-value-text");
    for (kind, pack) in CONTAINERS {
        let data = pack(&text());
        let out = knowing().redact_text("f", &data);
        assert!(!out.is_clean(), "{kind} with a secret is kept");
        assert!(!knowing().find_residues("f", &data).is_empty(), "{kind}: the last check misses it");
        let harmless = pack(clean.as_bytes());
        let out = knowing().redact_text("f", &harmless);
        assert!(out.is_clean(), "{kind} without a secret is changed");
        assert_eq!(knowing().find_residues("f", &harmless), [], "{kind}");
    }
}

#[test]
fn a_secret_inside_of_data_is_learned() {
    for (kind, pack) in CONTAINERS {
        let text = String::from_utf8(text()).expect("text").replace("it is ", "DB_PASSWORD=");
        let mut redactor = redactor();
        redactor.redact_text("f", &pack(text.as_bytes()));
        let out = redactor.redact_text("g", SECRET.as_bytes());
        assert_ne!(out.bytes, SECRET.as_bytes(), "{kind}");
    }
}

#[test]
fn encoded_data_is_replaced_in_its_text() {
    for (kind, pack) in CONTAINERS.iter().filter(|(kind, _)| !["brotli", "deflate"].contains(kind)) {
        let data = pack(&text());
        let base64 = STANDARD.encode(&data);
        let wrapped: String =
            base64.as_bytes().chunks(76).map(|line| String::from_utf8_lossy(line) + "\n").collect();
        let hex: String = data.iter().map(|byte| format!("{byte:02x}")).collect();
        let first_bytes = ["tar", "data before zip"].contains(kind);
        let bodies = [
            format!("{{\"source\":{{\"type\":\"base64\",\"data\":\"{base64}\"}}}}"),
            format!("data:application/octet-stream;base64,{base64} and text"),
            format!("{{\"text\":\"{}\"}}", inner(&format!("$ base64 f\n{wrapped}$ "))),
            format!("{{\"text\":\"{}\"}}", inner(&hex)),
        ];
        for body in bodies.iter().filter(|_| !first_bytes) {
            let out = knowing().redact_text("f", body.as_bytes()).bytes.into_owned();
            assert_valid(kind, body.as_bytes(), &out);
            let end = &hex[hex.len() - 64..];
            let left = String::from_utf8_lossy(&out);
            assert!(
                !left.contains(&base64[base64.len() / 2..][..40]) && !left.contains(end),
                "{kind}: {left}"
            );
            assert_eq!(knowing().find_residues("f", &out), [], "{kind}");
            assert!(!knowing().find_residues("f", body.as_bytes()).is_empty(), "{kind}");
        }
    }
}

#[test]
fn data_that_cannot_be_searched_is_named() {
    let noise: Vec<u8> = (0..3000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let behind = |start: &[u8]| [start, &noise].concat();
    let mut encrypted = zip(8, &noise);
    encrypted[6] = 1;
    let bomb = with("gzip", &vec![b'a'; unpack::MOST_DECODED + 1]);
    let deep = (0..12).fold(text(), |data, _| with("gzip", &data));
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (behind(b"\xfd7zXZ\0"), "XZ data"),
        (behind(b"BZh91AY&SY"), "bzip2 data"),
        (behind(b"7z\xbc\xaf\x27\x1c"), "a 7-Zip archive"),
        (behind(b"Rar!\x1a\x07\x01\0"), "a RAR archive"),
        (behind(b"\x89PNG\r\n\x1a\n"), "a PNG image"),
        (behind(b"\xff\xd8\xff\xe0"), "a JPEG image"),
        (behind(b"GIF89a"), "a GIF image"),
        (behind(b"RIFF\0\0\0\0WEBPVP8 "), "a WebP image"),
        (behind(b"%PDF-1.4"), "a PDF document"),
        (behind(b"\x7fELF\0\0"), "binary data"),
        (sqlite(b"nothing"), "an SQLite database"),
        (zip(12, &noise), "an entry of a ZIP archive in an unknown method"),
        (encrypted, "an encrypted entry of a ZIP archive"),
        (with("gzip", &behind(b"\xfd7zXZ\0")), "XZ data"),
        (tar(&behind(b"\x89PNG\r\n\x1a\n")), "a PNG image"),
        (with("gzip", &text())[..200].to_vec(), "damaged data"),
        (bomb, "more data than is unpacked"),
        (deep, "data in too many layers"),
    ];
    for (data, expected) in cases {
        let why =
            redactor().redact_text("f", &data).unsearched.map(|why| why.to_string()).unwrap_or_default();
        assert!(why.contains(expected), "{expected}: {why}");
    }
    let picture = format!("{{\"data\":\"{}\"}}", STANDARD.encode(behind(b"\x89PNG\r\n\x1a\n")));
    let out = redactor().redact_text("f", picture.as_bytes()).unsearched;
    assert_eq!(out.map(|why| why.to_string()).as_deref(), Some("it contains a PNG image"));
}

#[test]
fn searched_data_is_not_named() {
    for kind in ["gzip", "zip", "tar.gz", "zstd", "tar", "gzip of UTF-16"] {
        let (_, pack) = CONTAINERS.iter().find(|(name, _)| *name == kind).expect("a kind");
        assert_eq!(redactor().redact_text("f", &pack(b"a harmless text\n")).unsearched, None, "{kind}");
    }
    for text in [&b"plain text"[..], "Größe in UTF-8".as_bytes(), &utf16(b"some text in UTF-16")] {
        assert_eq!(redactor().redact_text("f", text).unsearched, None);
    }
}

#[test]
fn encoded_commands_are_searched() {
    let command = STANDARD.encode(utf16(format!("$env:API_TOKEN = '{SECRET}'; ./run").as_bytes()));
    for option in ["-enc", "-EncodedCommand", "-encodedCommand"] {
        let body = format!("powershell.exe -NoProfile {option} {command}");
        let out = redactor().redact_text("f", body.as_bytes()).bytes.into_owned();
        assert!(!String::from_utf8_lossy(&out).contains(&command[20..60]), "{body}");
    }
    for text in
        ["cp --encoding utf8 -encoder x", "tool -enc", "gcc -end -encl abcdefghijklmnopqrstuvwxyz012345"]
    {
        assert_eq!(String::from_utf8_lossy(&redactor().redact_text("f", text.as_bytes()).bytes), text);
    }
}

/// Hostile data must not take long, whatever it unpacks to.
#[test]
fn bombs_within_bombs_are_bounded() {
    let bomb = with("gzip", &vec![b'a'; 32 << 20]);
    let many: String = (0..64).map(|_| STANDARD.encode(&bomb) + "\n\n ").collect();
    let why = redactor().redact_text("f", with("gzip", many.as_bytes()).as_slice()).unsearched;
    assert!(why.is_some_and(|why| why.to_string().contains("more data than is unpacked")));
}
