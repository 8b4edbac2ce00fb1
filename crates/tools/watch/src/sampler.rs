//! Looks at the drive repeatedly while a page is open.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Deserialize;
use tantalum::UNIT_BYTES;
use tantalum_control::Look;
use tantalum_control::{Control, ControlError};
use tantalum_control::{Count, FileWrites};

use crate::blocks::{count, wear};
use crate::feed::{About, Feed, File, Files, Now, State};
use crate::names::Names;
use crate::point::{Between, amplification, handles, nothing};
use crate::words;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(500);

/// After a look, the next one waits for this many times the processor time that this thread took for it. The process that
/// answers takes less for it, so together they take less than 2 % of a processor.
const PATIENCE: u32 = 100;

/// But no longer than this.
const MOST_INTERVAL: Duration = Duration::from_secs(5);

/// After no page has been open for this long, the drive need no longer count writes by file.
const GRACE: Duration = Duration::from_secs(30);

/// How often to check whether a page was opened, or something happened.
const IDLE: Duration = Duration::from_millis(100);

/// An answer to a look: of a mount, which has files, or of anything else.
#[derive(Debug, Deserialize)]
struct Seen {
    #[serde(flatten)]
    look: Look,
    #[serde(with = "tantalum_control::path", default)]
    mounted_on: Option<PathBuf>,
    #[serde(default)]
    is_tried: bool,
    #[serde(default)]
    stopped: Option<String>,
    #[serde(default)]
    files: Vec<FileWrites>,
    #[serde(default)]
    all_files: Count,
    #[serde(default)]
    files_written: usize,
}

/// See the head of this file.
#[derive(Debug)]
pub struct Sampler {
    image: PathBuf,
    feed: Arc<Feed>,
    control: Option<Control>,
    before: Option<(Instant, Seen)>,
    names: Names,
    has_ended: bool,
}

impl Sampler {
    /// A sampler of the drive in this image.
    pub fn new(image: PathBuf, feed: Arc<Feed>) -> Sampler {
        Sampler { image, feed, control: None, before: None, names: Names::default(), has_ended: false }
    }

    /// The first look: an error if nothing uses the image. An experiment may have no drive yet.
    pub fn first_look(&mut self) -> Result<(), ControlError> {
        match self.look() {
            Err(ControlError::Refused { .. }) => Ok(()),
            looked => looked,
        }
    }

    /// Continues in a thread.
    pub fn start(mut self) -> io::Result<()> {
        thread::Builder::new().name("looks".to_owned()).spawn(move || self.run()).map(drop)
    }

    fn run(&mut self) {
        let mut left = Instant::now();
        loop {
            if self.feed.pages() == 0 {
                if left.elapsed() > GRACE {
                    self.control = None;
                }
                thread::sleep(IDLE);
                continue;
            }
            let begun = processor_time();
            if let Err(error) = self.look() {
                self.lost(&error);
            }
            left = Instant::now();
            self.wait((processor_time().saturating_sub(begun) * PATIENCE).clamp(INTERVAL, MOST_INTERVAL));
        }
    }

    /// Waits until it is time for the next look, or something happened that should be seen at once.
    fn wait(&self, time: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < time && !self.feed.is_hurried() {
            thread::sleep(IDLE.min(time));
        }
    }

    fn look(&mut self) -> Result<(), ControlError> {
        let control = match &mut self.control {
            Some(control) => control,
            None => self.control.insert(Control::connect(&self.image)?),
        };
        let seen: Seen = control.look()?;
        self.show(seen);
        Ok(())
    }

    /// The process that used the image has ended, or is about to, or an experiment is between two drives.
    fn lost(&mut self, error: &ControlError) {
        self.control = None;
        if !std::mem::replace(&mut self.has_ended, true) {
            self.feed.tell(
                now_ms(),
                match error {
                    ControlError::Refused { message, .. } => {
                        format!("There is no drive to look at: {message}.")
                    }
                    _ => "The image is not in use any more.".to_owned(),
                },
            );
            self.feed.end();
        }
    }

    fn show(&mut self, seen: Seen) {
        let (at, at_ms) = (Instant::now(), now_ms());
        let about = about_of(&seen);
        let before = self.before.take().filter(|(_, before)| about_of(before) == about);
        // after a pause there is nothing to say about the time between
        let between = before.as_ref().map(|(then, before)| Between {
            before: &before.look,
            now: &seen.look,
            passed: at - *then,
        });
        let is_recent = |between: &Between<'_>| between.passed < 3 * MOST_INTERVAL;
        let between = between.filter(is_recent);
        let now = self.now_of(&seen, between);
        let is_new = before.is_none() || std::mem::take(&mut self.has_ended);
        if is_new {
            self.feed.begin(about, now, &seen.look.blocks);
        } else {
            let point = between.map_or_else(|| nothing(at_ms), |between| between.point(at_ms));
            self.feed.look(now, point, &seen.look.blocks);
        }
        let earlier = before.as_ref().map(|(_, before)| before);
        if let Some(event) = event_of(earlier, &seen) {
            self.feed.tell(at_ms, event);
        }
        self.before = Some((at, seen));
    }

    fn now_of(&mut self, seen: &Seen, between: Option<Between<'_>>) -> Now {
        let look = &seen.look;
        Now {
            state: state_of(seen),
            amplification: amplification(&look.counters),
            wear: wear(&look.blocks),
            free_blocks: count(&look.blocks, b'f'),
            bad_blocks: count(&look.blocks, b'b'),
            mapped_bytes: look.mapped_units * UNIT_BYTES as u64,
            collection: between.map_or_else(Vec::new, words::collection),
            recovery: words::recovery(&look.recovery),
            handles: handles(look, between),
            zones: look.zones,
            stopped: seen.stopped.clone(),
            files: self.files_of(seen),
            longest_hold_ns: look.longest_hold_ns,
        }
    }

    fn files_of(&mut self, seen: &Seen) -> Option<Files> {
        let folder = seen.mounted_on.as_ref()?;
        let inodes: Vec<u64> = seen.files.iter().map(|file| file.inode).collect();
        let names = match seen.look.has_power {
            true => self.names.of(folder, &inodes),
            false => self.names.known(&inodes),
        };
        let named = seen.files.iter().zip(names);
        let most = named.map(|(file, name)| File { name, inode: file.inode, count: file.count }).collect();
        Some(Files { most, all: seen.all_files, written_to: seen.files_written })
    }
}

fn about_of(seen: &Seen) -> About {
    let look = &seen.look;
    About {
        image: look.image.clone(),
        profile: look.profile.clone(),
        shape: look.shape,
        capacity_bytes: look.capacity_units * UNIT_BYTES as u64,
        endurance_cycles: look.endurance_cycles,
        time: look.time,
        mounted_on: seen.mounted_on.clone(),
    }
}

fn state_of(seen: &Seen) -> State {
    match (seen.look.has_power, seen.is_tried) {
        (true, _) => State::On,
        (false, true) => State::Tried,
        (false, false) => State::Off,
    }
}

/// What became of the drive between two looks.
fn event_of(before: Option<&Seen>, now: &Seen) -> Option<String> {
    let Some(before) = before else {
        let without = if now.look.has_power { "" } else { " without power" };
        let name = now.look.image.file_name().unwrap_or_default().to_string_lossy();
        return Some(format!("In use{without}: {name}."));
    };
    let losses = |seen: &Seen| seen.look.counters.unsafe_shutdowns;
    let event = match (state_of(before), state_of(now)) {
        (State::On, State::Off) => Some("Power went."),
        (State::On, State::Tried) => Some("Power failed, and recovery was tried in memory."),
        (State::Off, State::Tried) => Some("Recovery was tried in memory."),
        (State::Off | State::Tried, State::On) => Some("The drive has power again, and has recovered."),
        (State::On, State::On) if losses(now) > losses(before) => {
            Some("Power failed and returned; the drive has recovered.")
        }
        _ => None,
    };
    event.map(str::to_owned)
}

/// The processor time of this thread; zero where the kernel does not report it.
fn processor_time() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = told.split(' ').next().and_then(|taken| taken.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or_default())
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
