//! UnitCounts and levels, by lane and surface.

use std::collections::HashMap;

use crate::verdict::{Level, Surface, SurfaceVerdict, UnitCounts};

/// What was seen of one surface in one lane.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub(super) counts: UnitCounts,
    /// The lowest level that a difference left; `None` inside where not even E0 was left.
    floor: Option<Option<Level>>,
    /// Of what was compared, how often it was only how a run or a request ended, which nothing excludes.
    endings: u64,
}

impl Cell {
    fn join(&mut self, other: &Self) {
        let (mine, theirs) = (&mut self.counts, &other.counts);
        mine.compared += theirs.compared;
        mine.equal += theirs.equal;
        mine.masked += theirs.masked;
        mine.excluded += theirs.excluded;
        mine.echoed += theirs.echoed;
        mine.absent += theirs.absent;
        self.endings += other.endings;
        if let Some(floor) = other.floor {
            self.lower(floor);
        }
    }

    fn lower(&mut self, holds: Option<Level>) {
        self.floor = Some(self.floor.map_or(holds, |floor| floor.min(holds)));
    }

    /// The level that is left: nothing where nothing was compared, and E0 where only one side has anything.
    fn level(&self) -> Option<Level> {
        match (self.has_basis(), self.floor) {
            (true, floor) => floor.unwrap_or(Some(Level::E4)),
            (false, Some(floor)) => floor.min(Some(Level::E0)),
            (false, None) => None,
        }
    }

    /// Whether anything but an ending was compared.
    fn has_basis(&self) -> bool {
        self.counts.compared > self.endings
    }
}

/// All cells.
#[derive(Debug, Default)]
pub(super) struct Tally {
    cells: HashMap<(usize, Surface), Cell>,
}

impl Tally {
    /// The counts of a surface in a lane.
    pub(super) fn counts(&mut self, lane: usize, surface: Surface) -> &mut UnitCounts {
        &mut self.cells.entry((lane, surface)).or_default().counts
    }

    /// How a run or a request ended was compared.
    pub(super) fn ending(&mut self, lane: usize, same: bool) {
        let cell = self.cells.entry((lane, Surface::Routing)).or_default();
        cell.endings += 1;
        cell.counts.compared += 1;
        cell.counts.equal += u64::from(same);
    }

    /// A difference holds up to this level.
    pub(super) fn lower(&mut self, lane: usize, surface: Surface, holds: Option<Level>) {
        self.cells.entry((lane, surface)).or_default().lower(holds);
    }

    /// The level of the whole, if anything was compared: what the lowest surface has.
    pub(super) fn level(&self) -> Option<Option<Level>> {
        let compared = self.cells.values().any(Cell::has_basis);
        let floors = self.cells.values().filter_map(|cell| cell.floor);
        compared.then(|| floors.min().unwrap_or(Some(Level::E4)))
    }

    pub(super) fn surfaces(&self) -> Vec<SurfaceVerdict> {
        let whole = |surface: Surface| {
            let mut whole = Cell::default();
            let cells = self.cells.iter().filter(|((_, of), _)| *of == surface);
            cells.for_each(|(_, cell)| whole.join(cell));
            verdict(surface, &whole)
        };
        Surface::ALL.into_iter().map(whole).collect()
    }

    pub(super) fn lane(&self, lane: usize) -> Vec<SurfaceVerdict> {
        let of_lane = |surface: Surface| {
            verdict(surface, &self.cells.get(&(lane, surface)).copied().unwrap_or_default())
        };
        Surface::ALL.into_iter().map(of_lane).collect()
    }
}

fn verdict(surface: Surface, cell: &Cell) -> SurfaceVerdict {
    SurfaceVerdict { surface, level: cell.level(), counts: cell.counts }
}
