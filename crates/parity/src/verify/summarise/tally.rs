//! Counts and levels by lane and surface.

use std::collections::HashMap;

use crate::verdict::{Level, Surface, SurfaceVerdict, UnitCounts};
use crate::verify::classify::Classified;

/// Counts of one surface in one lane.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    counts: UnitCounts,
    /// The lowest level of a difference. Inside, `None` means that E0 fails.
    floor: Option<Option<Level>>,
    /// Compared ends of runs and requests. They are no units, so they are no basis for a level.
    endings: u64,
}

impl Cell {
    fn add(&mut self, counts: &UnitCounts) {
        let own = &mut self.counts;
        own.compared += counts.compared;
        own.equal += counts.equal;
        own.masked += counts.masked;
        own.excluded += counts.excluded;
        own.echoed += counts.echoed;
        own.absent += counts.absent;
    }

    fn lower(&mut self, level: Option<Level>) {
        self.floor = Some(self.floor.map_or(level, |floor| floor.min(level)));
    }

    fn join(&mut self, other: &Self) {
        self.add(&other.counts);
        self.endings += other.endings;
        if let Some(floor) = other.floor {
            self.lower(floor);
        }
    }

    /// Returns the level that holds: `None` if nothing was compared, and E0 if only one side has units.
    fn level(&self) -> Option<Level> {
        match (self.has_basis(), self.floor) {
            (true, floor) => floor.unwrap_or(Some(Level::E4)),
            (false, Some(floor)) => floor.min(Some(Level::E0)),
            (false, None) => None,
        }
    }

    fn has_basis(&self) -> bool {
        self.counts.compared > self.endings
    }

    fn verdict(&self, surface: Surface) -> SurfaceVerdict {
        SurfaceVerdict { surface, level: self.level(), counts: self.counts }
    }
}

/// Counts of all surfaces in all lanes.
#[derive(Debug, Default)]
pub(super) struct Tally {
    cells: HashMap<(usize, Surface), Cell>,
}

impl Tally {
    /// Counts findings.
    pub(super) fn of(findings: &[Classified]) -> Self {
        let mut tally = Self::default();
        for finding in findings {
            let cell = tally.cells.entry((finding.place.lane, finding.surface)).or_default();
            cell.add(&finding.counts);
            cell.endings += u64::from(finding.is_ending);
            if let Some(difference) = &finding.difference {
                cell.lower(difference.level);
            }
        }
        tally
    }

    /// Returns the level of the lowest surface, unless nothing was compared.
    pub(super) fn level(&self) -> Option<Option<Level>> {
        let is_compared = self.cells.values().any(Cell::has_basis);
        let floors = self.cells.values().filter_map(|cell| cell.floor);
        is_compared.then(|| floors.min().unwrap_or(Some(Level::E4)))
    }

    /// Returns each surface over all lanes.
    pub(super) fn surfaces(&self) -> Vec<SurfaceVerdict> {
        let whole = |surface: Surface| {
            let mut whole = Cell::default();
            let cells = self.cells.iter().filter(|((_, of), _)| *of == surface);
            cells.for_each(|(_, cell)| whole.join(cell));
            whole.verdict(surface)
        };
        Surface::ALL.into_iter().map(whole).collect()
    }

    /// Returns each surface of one lane.
    pub(super) fn lane(&self, lane: usize) -> Vec<SurfaceVerdict> {
        let cell = |surface: Surface| self.cells.get(&(lane, surface)).copied().unwrap_or_default();
        Surface::ALL.into_iter().map(|surface| cell(surface).verdict(surface)).collect()
    }
}
