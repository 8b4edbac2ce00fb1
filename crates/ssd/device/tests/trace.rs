//! Each command tells whoever subscribes what it waited for.
//!
//! In a program of its own: `tracing` asks the thread that comes to an event first whether anybody wants it, and nobody does in
//! the thread of another test.

#[path = "it/small_drive/mod.rs"]
mod small_drive;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{
    CacheMode, Command, Device, FlashScheduling, Lpn, Plp, Profile, Status, TRACE_TARGET, UNIT_BYTES,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::small_drive::small_drive;

/// What one event said.
#[derive(Clone, Default, Debug)]
struct Line {
    figures: BTreeMap<&'static str, u64>,
    words: BTreeMap<&'static str, String>,
}

impl Line {
    fn ns(&self, names: &[&str]) -> u64 {
        names.iter().filter_map(|name| self.figures.get(name)).sum()
    }

    fn is(&self, name: &str, word: &str) -> bool {
        self.words.get(name).is_some_and(|found| found == word)
    }
}

impl Visit for Line {
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.figures.insert(field.name(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.words.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.words.insert(field.name(), format!("{value:?}"));
    }
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<Line>>>);

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == TRACE_TARGET
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().unwrap().push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The lines of what is done in `work`. Each test begins with this, one after the other.
fn lines_of(work: impl FnOnce()) -> Vec<Line> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), work);
    let lines = lines.0.lock().unwrap();
    lines.clone()
}

/// A drive whose flash is first come, first served, and whose cache, if any, has 24 units.
fn profile(plp: Plp) -> Profile {
    let mut profile = small_drive("tlc-nvme", 4 << 20, 40.0, plp);
    profile.flash.scheduling = FlashScheduling::Fifo;
    (profile.flash.suspend_ns, profile.flash.suspensions) = (None, None);
    profile.cache.bytes = 24 * UNIT_BYTES as u64;
    profile
}

/// Fills a drive, and then writes and reads at random places, with this many commands at a time.
fn work(profile: &Profile, overwrites: u32, at_once: usize) -> Device {
    let mut device = Device::in_memory(profile).unwrap();
    let units = device.limits().capacity_units as u32;
    let (mut random, mut now_ns) = (Xoshiro256PlusPlus::seed_from_u64(1), device.time_ns());
    let mut done_ns = Vec::new();
    let mut submit = |command: Command<'_>| {
        done_ns.push(device.submit(command, now_ns).unwrap().done_ns);
        if done_ns.len() == at_once {
            now_ns = done_ns.drain(..).max().unwrap_or(now_ns);
        }
    };
    for lpn in 0..units {
        submit(Command::Write { lpn: Lpn(lpn), data: &[1; UNIT_BYTES], fua: false, handle: None });
    }
    for _ in 0..overwrites {
        let lpn = Lpn(random.random_range(0..units));
        submit(Command::Write { lpn, data: &[2; UNIT_BYTES], fua: random.random(), handle: None });
        submit(Command::Read { lpn: Lpn(random.random_range(0..units)), data: &mut [0; UNIT_BYTES] });
        if random.random_ratio(1, 50) {
            submit(Command::Flush);
        }
    }
    device
}

const PARTS: [&str; 7] = ["queue_ns", "firmware_ns", "room_ns", "link_ns", "dram_ns", "flash_ns", "other_ns"];

#[test]
fn a_write_that_waited_for_garbage_collection_says_so() {
    let mut through = profile(Plp::None);
    through.cache.mode = CacheMode::Off;
    let lines = lines_of(|| drop(work(&through, 2000, 16)));
    let writes: Vec<&Line> = lines.iter().filter(|line| line.is("kind", "write")).collect();
    let waited = |line: &&&Line| {
        let collection_ns = line.ns(&["collection_ns"]);
        assert!(collection_ns <= line.ns(&["flash_ns"]), "{line:?}");
        collection_ns > 0
    };
    let count = writes.iter().filter(waited).count();
    assert!(count > 50, "{count} of {} writes waited for collection", writes.len());
    let collects = |line: &&&Line| line.ns(&["collected"]) > 0;
    assert!(writes.iter().filter(collects).count() > 50, "writes collect to have room");
}

#[test]
fn a_write_that_waited_for_room_in_dram_says_for_what() {
    let lines = lines_of(|| drop(work(&profile(Plp::Capacitor), 500, 16)));
    let waited: Vec<&Line> = lines.iter().filter(|line| line.ns(&["dram_ns"]) > 0).collect();
    assert!(waited.len() > 50, "{} writes waited for room", waited.len());
    assert!(waited.iter().all(|line| line.ns(&["program_ns"]) > 0), "until a page is programmed");
}

#[test]
fn a_drive_that_collects_nothing_says_nothing_of_it() {
    let lines = lines_of(|| drop(work(&profile(Plp::None), 10, 1)));
    assert!(lines.iter().all(|line| line.ns(&["collection_ns", "collected"]) == 0));
    assert!(lines.iter().any(|line| line.ns(&["program_ns"]) > 0), "writes wait for programs");
}

#[test]
fn the_parts_of_a_command_s_time_are_all_of_it() {
    let profile = profile(Plp::None);
    let mut smart = None;
    let lines = lines_of(|| smart = Some(work(&profile, 2000, 1).smart()));
    assert!(lines.len() > 4000, "{} lines", lines.len());
    for line in &lines {
        assert_eq!(line.ns(&PARTS), line.ns(&["latency_ns"]), "{line:?}");
        assert!(line.is("client", "host"), "{line:?}");
    }
    let reads = lines.iter().filter(|line| line.is("kind", "read"));
    assert!(reads.filter(|line| line.ns(&["read_ns"]) > 0).count() > 1000, "reads of flash");
    assert_eq!(smart, Some(work(&profile, 2000, 1).smart()), "the drive does the same when nobody listens");
}

#[test]
fn a_command_that_fails_says_why() {
    let lines = lines_of(|| {
        let mut device = Device::in_memory(&profile(Plp::None)).unwrap();
        device.cut_power(0);
        assert_eq!(device.submit(Command::Flush, 0), Err(Status::PowerLost));
    });
    let [line] = &lines[..] else { panic!("{lines:?}") };
    assert!(line.is("command", "Flush") && line.is("failed", &Status::PowerLost.to_string()), "{line:?}");
}
