//! The sealed folder of one execution: exchanges written as they happen, read back as they were.
//!
//! Start at [`Recorder`] to write one and at [`Recording`] to read one. Everything passes the
//! redactor before it reaches the disk, and whoever hands over bytes never waits for a disk that stands
//! still: what cannot be kept is counted and named. Nothing here opens a socket or judges what was recorded.

mod assembly;
mod body;
mod bounds;
mod bring;
mod disk;
mod doze;
mod dump;
mod folder;
mod hints;
mod kept;
mod key;
pub mod lanes;
mod line;
mod log;
mod loss;
mod manifest;
pub mod normalize;
mod open;
mod queue;
mod reads;
mod recorder;
pub mod scenario;
mod scrub;
mod seal;
pub mod source;
mod tap;
mod time;

pub use body::sha256;
pub use bring::Incoming;
pub use disk::{Disk, Folder};
pub use dump::{BodyDump, DUMP_FORMAT, DumpError, RequestDump, ResponseDump};
pub use key::{KeyError, load_or_create_key};
pub use log::{LOG_FORMAT, LogError, Record};
pub use loss::Loss;
pub use manifest::{
    Changes, Clock, Command, Counts, Harness, Host, LaneEntry, MANIFEST_FORMAT, Manifest, Network,
    NetworkSeal, Reading, Replay, Round, SeenBy,
};
pub use open::{OpenError, Recording, State};
pub use recorder::{CreateError, Finished, Output, Recorder, Settings};
pub use seal::{SealError, Sealed};
pub use tap::ExchangeTap;
pub use time::{iso, iso_of};
