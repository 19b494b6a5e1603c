//! The requests of a recording as units.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use recording::lanes::{Lane, LaneJob, LaneResponse, Lanes};
use recording::source::{SourceObserver, SourceRequest, SourceResponse};
use session::RequestId;
use wire::dialect::Prompt;
use wire::json::Document;

use super::body::{frame_of, project, project_prompt};
use super::unit::{RequestUnits, UnitPool};
use crate::verify::compared::ComparedRecording;

/// Projects requests while their recording is put in order, so that each is read and decoded once.
#[derive(Debug, Default)]
pub(in crate::verify) struct UnitCollector {
    requests: HashMap<RequestId, Arc<RequestUnits>>,
    pool: UnitPool,
}

impl SourceObserver for UnitCollector {
    fn decoded_request(&mut self, asked: &SourceRequest, document: &Document<'_>, prompt: &Prompt) {
        let units = project_prompt(asked, document, prompt, &mut self.pool);
        self.requests.insert(asked.id.clone(), Arc::new(units));
    }

    fn request(&mut self, _: usize, _: &SourceRequest, _: Option<&Prompt>) {}
    fn response(&mut self, _: usize, _: &SourceResponse, _: &LaneResponse) {}
}

/// One of the two recordings, with its requests as units.
pub(in crate::verify) struct ProjectedRecording<'c> {
    pub(in crate::verify) recording: &'c ComparedRecording<'c>,
    pub(in crate::verify) jobs: Vec<LaneJob>,
    units: RefCell<UnitCollector>,
}

impl<'c> ProjectedRecording<'c> {
    /// Projects a recording. Requests that `collected` does not have are read when they are needed.
    pub(in crate::verify) fn new(recording: &'c ComparedRecording<'c>, collected: UnitCollector) -> Self {
        let jobs = recording.ordered.lanes.jobs();
        Self { recording, jobs, units: RefCell::new(collected) }
    }

    pub(in crate::verify) fn lanes(&self) -> &'c Lanes {
        &self.recording.ordered.lanes
    }

    pub(in crate::verify) fn lane(&self, number: usize) -> &'c Lane {
        &self.lanes().lanes[number]
    }

    /// Returns the units of a request, unless it cannot be read.
    pub(in crate::verify) fn units(&self, id: &RequestId) -> Option<Arc<RequestUnits>> {
        let mut units = self.units.borrow_mut();
        if let Some(known) = units.requests.get(id) {
            return Some(Arc::clone(known));
        }
        let asked = self.recording.requests.request(id)?;
        Some(Arc::new(project(&asked, &mut units.pool)))
    }

    /// Returns the body of a request as UTF-8.
    pub(in crate::verify) fn body(&self, id: &RequestId) -> Vec<u8> {
        let bytes =
            self.recording.requests.request(id).and_then(|asked| asked.body.bytes).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned().into_bytes()
    }

    /// Returns the body of a request with a hole in place of each unit.
    pub(in crate::verify) fn frame(&self, id: &RequestId) -> Option<String> {
        frame_of(&self.recording.requests.request(id)?)
    }
}
