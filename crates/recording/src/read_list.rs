//! Serialization of a response's reads, for the log and for dumps.

use wire::SocketRead;

/// Appends the items of a list of reads without brackets, exactly as a serializer would. There is one item per
/// event of a stream, and a serializer takes several times as long for so many small items.
pub(crate) fn write(out: &mut Vec<u8>, reads: &[SocketRead]) {
    for (index, SocketRead { seq, offset, us }) in reads.iter().enumerate() {
        let open = if index == 0 { "{\"seq\":" } else { ",{\"seq\":" };
        for (key, value) in [(open, seq), (",\"offset\":", offset), (",\"us\":", us)] {
            out.extend_from_slice(key.as_bytes());
            serde_json::to_writer(&mut *out, value).expect("a vector takes all");
        }
        out.push(b'}');
    }
}
