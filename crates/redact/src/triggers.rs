//! The first pass over a text: positions where a secret may start.
//!
//! Every rule has a trigger, a short text that each of its matches contains. The pass hashes three bytes at every
//! second position. A small table contains three bytes of each trigger at an even and at an odd offset, the ones
//! that are rarest in other texts. So the pass takes a few instructions per byte, whatever the number of triggers.
//! An automaton took three times as many.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::packed::{self, TextCoding};
use super::{assign, entities, names, shapes};

/// Members beside each token of such a text.
pub(super) const TOKEN_SIBLINGS: &[&str] = &["\"logprob\"", "\"logProbability\"", "\"token_logprobs\""];

/// Starts of a JSON string that contains a stream.
pub(super) const STREAM_STARTS: &[&str] = &["\"data:", "\"event:", "\"id:", "\"retry:"];

/// The rule that a trigger belongs to.
pub(super) enum TriggerKind {
    Shape(shapes::Trigger),
    Name,
    /// An HTML character reference.
    Entity,
    /// The start of a stream, in quotes.
    Stream,
    /// The sibling of a token in a model's text.
    Token,
    /// The beginning of an archive, a document or a picture, encoded as text.
    Packed(TextCoding),
}

impl TriggerKind {
    /// Returns true if the rule can match with this byte after the trigger.
    fn may_continue_with(&self, byte: u8) -> bool {
        match self {
            Self::Shape(trigger) => trigger.may_continue_with(byte),
            Self::Name => assign::may_continue_with(byte),
            Self::Entity => byte.is_ascii_hexdigit() || byte == b';',
            Self::Packed(_) => packed::may_continue_with(byte),
            Self::Stream | Self::Token => true,
        }
    }

    /// Returns true if the rule cannot match after a letter, a digit, a dash or an underscore.
    fn starts_word(&self) -> bool {
        match self {
            Self::Shape(trigger) => trigger.starts_word(),
            Self::Packed(coding) => *coding != TextCoding::Hex,
            Self::Name | Self::Entity | Self::Stream | Self::Token => false,
        }
    }
}

struct TriggerEntry {
    text: String,
    kind: TriggerKind,
}

/// The triggers of all rules.
pub(super) struct Triggers {
    entries: Vec<TriggerEntry>,
    /// For the hash of each trigger start, a bit for each class of bytes that may come next. Zero for other hashes.
    marks: Box<[u8; HASHES]>,
    /// For the hash of each trigger start, the index of its list in `starts`.
    lists: Box<[u16; HASHES]>,
    starts: Vec<Vec<TriggerStart>>,
}

/// An entry that may be at a position.
#[derive(PartialEq, Eq)]
struct TriggerStart {
    entry: u16,
    /// The offset of the three hashed bytes in the entry's text, -1 if they include the byte before it.
    lead: i8,
    /// The first eight bytes of the entry's text in lower case, and the bits of them that it has.
    word: u64,
    mask: u64,
}

impl TriggerStart {
    fn new(entry: usize, lead: i8, text: &str) -> Self {
        let [word, mask] = [text.as_bytes(), &[u8::MAX; 8]].map(|bytes| {
            let mut word = [0; 8];
            let len = text.len().min(8);
            word[..len].copy_from_slice(&bytes[..len]);
            u64::from_le_bytes(word)
        });
        Self { entry: entry as u16, lead, word: (word | SMALL) & mask, mask }
    }
}

pub(super) static TRIGGERS: LazyLock<Triggers> = LazyLock::new(|| {
    let shapes = shapes::triggers()
        .into_iter()
        .map(|trigger| (trigger.text().to_owned(), TriggerKind::Shape(trigger)));
    let fixed = |texts: &'static [&'static str], kind: fn() -> TriggerKind| {
        texts.iter().map(move |text| ((*text).to_owned(), kind()))
    };
    let names = fixed(names::STEMS, || TriggerKind::Name);
    let entities = fixed(entities::BEGINS, || TriggerKind::Entity);
    let streams = fixed(STREAM_STARTS, || TriggerKind::Stream);
    let words = fixed(TOKEN_SIBLINGS, || TriggerKind::Token);
    let packed =
        packed::BEGINNINGS.iter().map(|(text, coding)| ((*text).to_owned(), TriggerKind::Packed(*coding)));
    let all = shapes.chain(names).chain(entities).chain(streams).chain(words).chain(packed);
    Triggers::new(all.map(|(text, kind)| TriggerEntry { text, kind }).collect())
});

/// The number of hashes. With fewer ones, more texts have the hash of a trigger by chance.
const HASHES: usize = 1 << HASH_BITS;
const HASH_BITS: u32 = 18;

/// The bit of each byte that makes ASCII letters lower case.
const SMALL: u64 = 0x2020_2020_2020_2020;

/// Hashes the first three of four bytes in lower case.
///
/// Of 2,500 random factors, this one has the fewest collisions of common texts with triggers: one in 2,400 bytes.
fn hash(word: u32) -> usize {
    ((word << 8).wrapping_mul(0xac61_cbed) >> (u32::BITS - HASH_BITS)) as usize
}

/// Returns the class of a byte, which is the same for upper and lower case, as one of eight bits.
fn class(byte: u8) -> u8 {
    1 << ((byte | SMALL as u8) & 7)
}

impl Triggers {
    fn new(entries: Vec<TriggerEntry>) -> Self {
        let mut triggers = Self { entries: Vec::new(), marks: zeros(), lists: zeros(), starts: Vec::new() };
        for (index, entry) in entries.iter().enumerate() {
            for (bytes, next, lead) in starts(entry) {
                triggers.begin(bytes, next, TriggerStart::new(index, lead, &entry.text));
            }
        }
        Self { entries, ..triggers }
    }

    /// Enters three bytes of a trigger. `next` is the only byte that may follow, `None` if any byte may.
    fn begin(&mut self, [a, b, c]: [u8; 3], next: Option<u8>, start: TriggerStart) {
        let hash = hash(u32::from_le_bytes([a, b, c, 0]) | SMALL as u32);
        if self.marks[hash] == 0 {
            self.lists[hash] = self.starts.len() as u16;
            self.starts.push(Vec::new());
        }
        self.marks[hash] |= next.map_or(u8::MAX, class);
        let list = &mut self.starts[usize::from(self.lists[hash])];
        if !list.contains(&start) {
            list.push(start);
        }
    }

    /// Calls `found` with every trigger in `text` in any case, with its start and end.
    pub(super) fn for_each(&self, text: &[u8], mut found: impl FnMut(&TriggerKind, usize, usize)) {
        let mut at = 0;
        // Four positions at a time, with two loads and one branch, because there is nearly always no trigger.
        while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<10>()) {
            let [first, last] = [&chunk[..8], &chunk[2..]]
                .map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes of ten")) | SMALL);
            let words = [first as u32, (first >> 16) as u32, (first >> 32) as u32, (last >> 32) as u32];
            let hashes = words.map(hash);
            if hashes.iter().fold(0, |any, &hash| any | self.marks[hash]) != 0 {
                for (place, (word, hash)) in words.into_iter().zip(hashes).enumerate() {
                    if self.marks[hash] & class((word >> 24) as u8) != 0 {
                        self.at(text, hash, at + 2 * place, &mut found);
                    }
                }
            }
            at += 8;
        }
        // The last positions, with spaces after the end. A space may end a trigger of three bytes, too.
        let rest = &text[at.min(text.len())..];
        for (past, _) in rest.iter().enumerate().step_by(2) {
            let byte = |index: usize| rest.get(past + index).copied().unwrap_or(b' ');
            let word = u32::from_le_bytes([byte(0), byte(1), byte(2), 0]) | SMALL as u32;
            let hash = hash(word);
            if self.marks[hash] != 0 {
                self.at(text, hash, at + past, &mut found);
            }
        }
    }

    /// Calls `found` with the triggers at a position with this hash.
    #[cold]
    fn at(&self, text: &[u8], hash: usize, at: usize, found: &mut impl FnMut(&TriggerKind, usize, usize)) {
        for &TriggerStart { entry, lead, word, mask } in &self.starts[usize::from(self.lists[hash])] {
            let Some(start) = at.checked_add_signed(-isize::from(lead)) else { continue };
            let here = text.get(start..).and_then(|rest| rest.first_chunk::<8>());
            if here.is_some_and(|here| (u64::from_le_bytes(*here) | SMALL) & mask != word) {
                continue;
            }
            let entry = &self.entries[usize::from(entry)];
            let end = start + entry.text.len();
            if text.get(start..end).is_some_and(|here| here.eq_ignore_ascii_case(entry.text.as_bytes())) {
                found(&entry.kind, start, end);
            }
        }
    }
}

/// Returns a table that was never on the stack.
fn zeros<T: Copy + Default>() -> Box<[T; HASHES]> {
    vec![T::default(); HASHES]
        .into_boxed_slice()
        .try_into()
        .unwrap_or_else(|_| unreachable!("the length is the same"))
}

/// Three bytes of a trigger, the only byte that may follow them, and their offset in the trigger.
type Start = ([u8; 3], Option<u8>, i8);

/// Returns starts of an entry such that one of them is at an even position of every text with the entry.
fn starts(entry: &TriggerEntry) -> Vec<Start> {
    let text = entry.text.as_bytes();
    let inside =
        |at: usize| vec![([text[at], text[at + 1], text[at + 2]], text.get(at + 3).copied(), at as i8)];
    let [a, b, c] = [text[0], text[1], text[2]];
    let bytes = 0..=u8::MAX;
    // Only with bytes that can be there: each one takes an entry in the table, and a full table would let every
    // text through.
    let with_next = || -> Vec<Start> {
        bytes.clone().filter(|d| entry.kind.may_continue_with(*d)).map(|d| ([b, c, d], None, 1)).collect()
    };
    let with_previous =
        || bytes.clone().filter(|byte| !is_word(*byte)).map(|byte| ([byte, a, b], Some(c), -1));
    // Names and data are found in the order of their places, because one may be inside of another.
    let is_ordered = matches!(entry.kind, TriggerKind::Name | TriggerKind::Packed(_));
    let last = if is_ordered { (text.len() - 3).min(1) } else { text.len() - 3 };
    let even = (0..=last).step_by(2).map(inside).min_by_key(|starts| commonness(starts));
    let mut odd: Vec<Vec<Start>> = (1..=last).step_by(2).map(inside).collect();
    odd.extend((text.len() == 3).then(with_next));
    odd.extend((text.len() < 5 && entry.kind.starts_word()).then(|| with_previous().collect()));
    let odd = odd.into_iter().min_by_key(|starts| commonness(starts));
    even.into_iter().chain(odd).flatten().collect()
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Estimates how often a text contains some starts.
fn commonness(starts: &[Start]) -> usize {
    let most = starts.iter().map(|(bytes, ..)| {
        let bytes = bytes.map(|byte| if byte == b' ' { b'~' } else { byte.to_ascii_lowercase() });
        let by_letter =
            || bytes.iter().map(|byte| LETTERS.len() - LETTERS.find(*byte as char).unwrap_or(LETTERS.len()));
        RANKS.get(&bytes).map_or_else(|| by_letter().sum(), |rank| LEAST_COMMON - rank)
    });
    most.max().unwrap_or(0)
}

/// Letters, most common first.
const LETTERS: &str = "e~taoinsrhldcu\"mfpgwybv";
const LEAST_COMMON: usize = 1000;

/// The texts in [`COMMON`] with their ranks.
static RANKS: LazyLock<HashMap<[u8; 3], usize>> = LazyLock::new(|| {
    let texts = COMMON.split_ascii_whitespace().enumerate();
    texts.filter_map(|(rank, text)| Some((text.as_bytes().try_into().ok()?, rank))).collect()
});

/// Three bytes that are common in prose, JSON and code, most common first. `~` is a space.
const COMMON: &str = r#"
    ~th the ent he~ ~re ion ~an age tio and con ing rea pro nd~ ~of res er~ ed~ es~ ~co ts~ at~ ess hat ons of~ for
    all ~in ext nte com ont ~it del ten omp tex sta s~a let est is~ out ~is der put ull ~se nul equ run ode ted :nu
    in~ s~t too ver ~fo que one ool ame sag eve ype ken oke typ tok or~ ens _to che ~no son ers ~ca "co ~on ord mes
    cal ith re~ st~ str dat ach wit ead ~to ~st par nce ~wi "re ect enc nse tha ~ru ~pr her spo ~le ut_ rep esp are
    tur rec ati ot~ gen et~ ues ter ser cha "ty req eco mod use pen "in not ite ate ide mpl nam tem pon sho th~ ata
    its e~t ind it~ ~fi "st ope ~wh rom e~s s~o nde t~i t_t art ne~ as~ hoo ssa sto e~r t~t ~pa cac ven nts ~ha ~ma
    eat cor utp tpu ple tes t~a ng~ s~i se~ ere "pr nda ~ar end ~as old off ort urn ~be oot mpt ~or "te ut~ "to ork
    eas lta ena per nt~ en~ ffs ore ded elt ile n~a fsh an~ red n~t ds~ ll~ e~a ult tru cti e~c ren epl on~ ath ole
    ~me ta: inp ssi wor ist ges lde nes _re aso nge npu f~t fil sio ste oth ~ex t~c ~te ~li fin ns~ int "me pla atu
    ans own s~w top ice har ~la ain ch~ ure "de tat ant den mma ~mo thi tre sel mat e~i e~o lls ses jso dex ~ag a~r
    t~r tar cre ass oun _ca d~a ete "us din ock me~ _de t~s por lan han r~a get ail rat rin ce_ ly~ err ~at t~o ber
    ace s~n ask ost mbe pre ~by to~ usa _in nev rit rol rde jec f~a loc ~de hin "mo elf le~ ang ces "ob act nt: ~su
    d~t nal man ~ne un~ de~ rdi tor ~en "ou les esu e~f he_ ~so ~sa ome era ~wo ~wa ~na ~al lin eam tho "se ~ch t~w
    cod "id num r~t eta ane erv ity ref ine fer a~c "ro nt_ ~di can umb cri ret e~w ins wer "ca scr if~ rop met e~p
    ~if bod nai ~us rip als ini ari wri a~s ol_ ime log tim sts rro tin omm hea _id rne our "ch tus ed_ nin yte byt
    orm ies rue d~o pat tri rs~ nti ipt blo unc tai cat hen bje ols has ~ev set lse ror tie r~o rma mar arn ade ive
    vid te~ lle arg "lo obj s~s und wha t~m ody htt ttp thr e~m s~r seq _st rov sum ume led nds tan sul e~n ls~ cit
    ovi ~ke l_c ill swe "pa add t_i nsw ~un ay~ sse eti max rou men ude fol obs key ble no~ uen op_ ~ve ier e~l rt~
    ss~ on_ atc ~tr s~f now irs ry~ d~i n~i al~ pti emp ~op you whe ~sh rst sys tra ~lo yst ert sub fir don cho ~fa
    pt_ def pt~ min "na sen nst fn~ uns _ti s~c t~b wea aul rks fro fau low al_ exp ~wr ogp aud hem ran ~ho ce~ lay
    sec ils ge~ on" a~p n~o :tr gpr onc is_ ~do ply ept pac rob det cla ~bo tte som hro ngs tch pe" hou d~r val sid
    pic sed new ax_ pub e_t kno sam ~ti col el~ unt pri aft opi spa sis "ma eac ack ait lon ery nth fte onl wn~ lau
    ~tu wai ks~ r~i nco xt~ pli h~a ear nct ~ta unk gol ook ow~ ~yo ogr oic ~sc ad~ fal ked "ht st"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_trigger_at_every_place() {
        for entry in &TRIGGERS.entries {
            for before in 0..3 {
                for (behind, case) in [
                    ("", true),
                    ("x1", false),
                    ("=\"", true),
                    ("9-", false),
                    ("\u{1f600}", true),
                    ("(", false),
                    ("\n", true),
                ] {
                    let next = behind.bytes().next().unwrap_or(b' ');
                    if entry.text.len() == 3 && !entry.kind.may_continue_with(next) {
                        continue;
                    }
                    let text = if case { entry.text.to_uppercase() } else { entry.text.to_lowercase() };
                    let text = format!("{}{text}{behind}", &"..."[..before]);
                    let mut starts = Vec::new();
                    TRIGGERS.for_each(text.as_bytes(), |_, start, end| starts.push(start..end));
                    assert!(starts.contains(&(before..before + entry.text.len())), "{text}");
                }
            }
        }
    }
}
