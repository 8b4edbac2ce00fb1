//! Reads a trace once before it is replayed: checks that all of it can be parsed, and counts its contents.

use tantalum_report::Monitor;

use crate::error::ReplayError;
use crate::load::Load;
use crate::touched_chunks::Touches;
use crate::trace::{Format, Input, Operation, Source, Trace};

/// Requests between two checks for cancellation.
const REQUESTS_PER_STEP: u64 = 4096;

/// The contents of a trace.
#[derive(Debug)]
pub(crate) struct Survey {
    /// The trace's bytes; `None` for a pattern.
    pub input: Option<Input>,
    /// `None` for a pattern.
    pub format: Option<Format>,
    pub has_times: bool,
    pub requests: u64,
    pub volumes: Vec<Volume>,
    pub first_ns: u64,
    pub last_ns: u64,
    /// Entries that were left out because too little is known of them.
    pub left_out: u64,
    /// What else a reader of the report must know about the trace.
    pub note: Option<String>,
    /// Requests that came too late to be sorted, and the largest delay.
    pub late: (u64, u64),
    pub touches: Touches,
}

/// One volume of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Volume {
    pub name: String,
    /// The end of the last byte read or written.
    pub end_bytes: u64,
}

/// Reads all of a trace. A pattern's contents are known in advance.
pub(crate) fn survey(load: &Load, capacity_bytes: u64, monitor: &Monitor) -> Result<Survey, ReplayError> {
    match load {
        Load::Trace(source) => of_trace(source, monitor),
        Load::Synthetic(synthetic) => Ok(Survey {
            input: None,
            format: None,
            has_times: false,
            requests: synthetic.requests,
            volumes: vec![Volume { name: synthetic.pattern.name().to_owned(), end_bytes: capacity_bytes }],
            first_ns: 0,
            last_ns: 0,
            left_out: 0,
            note: None,
            late: (0, 0),
            touches: Touches::default(),
        }),
    }
}

fn of_trace(source: &Source, monitor: &Monitor) -> Result<Survey, ReplayError> {
    let input = Input::open(&source.path, monitor)?;
    let bar = monitor.bar("reading", input.bytes());
    let mut trace = Trace::open(source, &input)?;
    let (mut requests, mut first_ns, mut last_ns) = (0u64, None, 0);
    let mut touches = Touches::default();
    let mut ends: Vec<u64> = Vec::new();
    while let Some(request) = trace.next()? {
        requests += 1;
        first_ns.get_or_insert(request.at_ns);
        last_ns = request.at_ns;
        let volume = request.volume as usize;
        if volume >= ends.len() {
            ends.resize(volume + 1, 0);
        }
        if matches!(request.operation, Operation::Read | Operation::Write { .. }) {
            touches.note(request.volume, request.offset, request.bytes);
            ends[volume] = ends[volume].max(request.offset + request.bytes);
        }
        if requests.is_multiple_of(REQUESTS_PER_STEP) {
            bar.reach(trace.bytes_read())?;
        }
    }
    if requests == 0 {
        return Err(ReplayError::NoRequests { path: source.path.clone() });
    }
    let volumes = trace.volumes().into_iter().zip(ends).map(|(name, end_bytes)| Volume { name, end_bytes });
    Ok(Survey {
        format: Some(trace.format()),
        has_times: trace.has_times(),
        requests,
        volumes: volumes.collect(),
        first_ns: first_ns.unwrap_or(0),
        last_ns,
        left_out: trace.left_out(),
        note: trace.note(),
        late: trace.late(),
        input: Some(input),
        touches,
    })
}
