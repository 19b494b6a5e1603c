//! Findings: the result of step 3, compare. A finding says what was compared at one place and how the two sides differ
//! there. It has no level yet: step 4, classify, decides that.

use recording::lanes::LaneKind;

use super::project::{Unit, UnitKind};
use super::structure::Structure;
use crate::verdict::{Race, Surface, UnitCounts};

/// The turn of a lane pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TurnPlace {
    /// Number of the lane pair.
    pub(super) lane: usize,
    /// The golden's turn, or the candidate's if the golden has none.
    pub(super) turn: u32,
}

/// One comparison at one place.
#[derive(Clone, Debug)]
pub(super) struct Finding {
    pub(super) place: TurnPlace,
    pub(super) surface: Surface,
    /// JSON pointer or pseudo pointer.
    pub(super) pointer: String,
    /// The units that it adds to the counts of its surface.
    pub(super) counts: UnitCounts,
    /// True if it only compares the end of a run or of a request, which no rule excludes.
    pub(super) is_ending: bool,
    /// True if a rule for its place excludes it. Inside of a value the rules have been applied already.
    pub(super) is_excludable: bool,
    pub(super) difference: Option<Difference>,
    /// Name of a tool that both sides have.
    pub(super) common_tool: Option<String>,
    /// Addition to the description.
    pub(super) suffix: String,
}

/// A difference that has no level yet.
#[derive(Clone, Debug)]
pub(super) enum Difference {
    /// A value is not byte-equal.
    Value(ValueDifference),
    /// A unit has no counterpart.
    Unpaired(UnpairedUnit),
    /// The recordings differ in something other than a value: order, shape, lanes, jobs.
    Structure { structure: Structure, golden: Option<String>, candidate: Option<String>, race: Option<Race> },
}

/// A value that is not byte-equal.
#[derive(Clone, Debug)]
pub(super) struct ValueDifference {
    pub(super) subject: Subject,
    /// Pointer of the value inside of the unit.
    pub(super) inside: String,
    /// The two values as JSON. A missing value is `None`.
    pub(super) values: [Option<String>; 2],
    pub(super) agreement: ValueAgreement,
    /// A race that may cause the difference.
    pub(super) race: Option<Race>,
}

/// The thing that contains a value.
#[derive(Clone, Debug)]
pub(super) enum Subject {
    /// Two aligned units with these keys.
    Units { kind: UnitKind, keys: [String; 2] },
    /// The members of a model's message besides its content.
    MessageMembers,
    /// The body around the units.
    Frame,
    /// An id whose pairing contradicts other places.
    Id { conflict: String },
}

/// Agreement of two values that are not byte-equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueAgreement {
    /// They differ.
    Different,
    /// They are the same value in other bytes.
    SameValue,
    /// They are equal under a mask.
    Masked,
    /// Each is what the model of its side said, and the two models said different things.
    Echoed,
}

/// A unit without counterpart.
#[derive(Clone, Debug)]
pub(super) struct UnpairedUnit {
    pub(super) kind: UnitKind,
    pub(super) key: String,
    /// Index of the side that has it.
    pub(super) side: usize,
    pub(super) json: String,
    pub(super) race: Option<Race>,
    /// Kind of the lane that has it.
    pub(super) lane_kind: LaneKind,
}

/// Findings and notes, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) list: Vec<Finding>,
    /// Facts that help to judge the result.
    pub(super) notes: Vec<String>,
}

impl Findings {
    pub(super) fn push(&mut self, finding: Finding) {
        self.list.push(finding);
    }

    pub(super) fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

impl Finding {
    /// Returns a finding that counts nothing and has no difference.
    pub(super) fn new(place: TurnPlace, surface: Surface, pointer: impl Into<String>) -> Self {
        Self {
            place,
            surface,
            pointer: pointer.into(),
            counts: UnitCounts::default(),
            is_ending: false,
            is_excludable: false,
            difference: None,
            common_tool: None,
            suffix: String::new(),
        }
    }

    /// Counts one unit of both sides.
    pub(super) fn compared(mut self, is_equal: bool) -> Self {
        self.counts.compared += 1;
        self.counts.equal += u64::from(is_equal);
        self
    }

    /// Counts units that only one side has.
    pub(super) fn unpaired(mut self, side: usize, count: u64) -> Self {
        match side {
            0 => self.counts.compared += count,
            _ => self.counts.absent += count,
        }
        self
    }

    /// Lets a rule for its place exclude it.
    pub(super) fn excludable(self) -> Self {
        Self { is_excludable: true, ..self }
    }

    /// Adds a difference of structure.
    pub(super) fn structure(
        self,
        structure: Structure,
        golden: Option<&str>,
        candidate: Option<&str>,
    ) -> Self {
        let [golden, candidate] = [golden, candidate].map(|value| value.map(str::to_owned));
        self.with(Difference::Structure { structure, golden, candidate, race: None })
    }

    pub(super) fn with(self, difference: Difference) -> Self {
        Self { difference: Some(difference), ..self }
    }
}

/// Returns one value at the index of its side, and `None` at the other.
pub(super) fn on_side<T>(side: usize, value: T) -> [Option<T>; 2] {
    if side == 0 { [Some(value), None] } else { [None, Some(value)] }
}

/// A pair of units, of which one may be missing.
pub(super) type UnitPair<'u> = [Option<&'u Unit>; 2];
