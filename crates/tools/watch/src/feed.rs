//! What the pages show: what a newly opened page gets at once, and what is sent to all pages from then on.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use parking_lot::Mutex;
use serde::Serialize;
use tantalum_control::{Count, Shape, ZonesReport};
use tantalum_drive::Pacing;

use crate::blocks::{Blocks, Wear};
use crate::point::{Amplification, Handle, Point};

/// Number of points that a page gets when it is opened: five minutes, at two per second.
const HISTORY: usize = 600;

/// Number of events that it gets.
const EVENTS: usize = 50;

/// Messages that may wait for a slow page; beyond that it gets everything again.
const WAITING: usize = 16;

/// What does not change while the drive is in use.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct About {
    /// The image.
    #[serde(serialize_with = "tantalum_control::path::for_people")]
    pub image: PathBuf,
    /// The drive's profile.
    pub profile: String,
    /// How the flash is divided.
    pub shape: Shape,
    /// Logical capacity.
    pub capacity_bytes: u64,
    /// Rated erases of a block.
    pub endurance_cycles: u32,
    /// Whether programs see the drive's latencies; `None` in an experiment.
    pub time: Option<Pacing>,
    /// Where it is mounted, if it is.
    #[serde(serialize_with = "tantalum_control::path::for_people")]
    pub mounted_on: Option<PathBuf>,
}

/// Whether the drive can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The drive has power.
    On,
    /// The drive has no power.
    Off,
    /// It has no power, and recovery was tried in memory.
    Tried,
    /// Nobody uses the image.
    Ended,
}

/// The current state of the drive.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Now {
    pub state: State,
    /// Since the drive was created.
    pub amplification: Option<Amplification>,
    pub wear: Wear,
    pub free_blocks: usize,
    pub bad_blocks: usize,
    pub mapped_bytes: u64,
    pub collection: Vec<String>,
    pub recovery: Vec<String>,
    /// Reclaim unit handles that were written with.
    pub handles: Vec<Handle>,
    /// Its zones, as its report says.
    pub zones: Option<ZonesReport>,
    /// The error that stopped the drive for good.
    pub stopped: Option<String>,
    /// Files that were written to; `None` if it is not mounted.
    pub files: Option<Files>,
    /// The longest time for which the drive was held for a look.
    pub longest_hold_ns: u64,
}

/// What was written, by file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Files {
    pub most: Vec<File>,
    pub all: Count,
    pub written_to: usize,
}

/// A file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct File {
    /// Its path in the mounted folder, if it was found.
    pub name: Option<String>,
    pub inode: u64,
    #[serde(flatten)]
    pub count: Count,
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Event {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    pub text: String,
}

/// A message to a page.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Message<'a> {
    /// Everything, at the beginning and when the drive changes.
    All {
        about: &'a About,
        control: bool,
        now: &'a Now,
        blocks: &'a str,
        points: &'a VecDeque<Point>,
        events: &'a VecDeque<Event>,
    },
    /// A look.
    Look { now: &'a Now, point: &'a Point, blocks: &'a Blocks },
    /// An event.
    Event(&'a Event),
}

/// See the head of this file.
#[derive(Debug)]
pub struct Feed {
    pub control: bool,
    hurried: AtomicBool,
    shown: Mutex<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    /// The open pages, and those that have been closed since the last message.
    pages: Vec<SyncSender<Arc<str>>>,
    drive: Option<(About, Now)>,
    blocks: String,
    points: VecDeque<Point>,
    events: VecDeque<Event>,
}

impl Feed {
    /// Nothing yet.
    pub fn new(control: bool) -> Feed {
        Feed { control, hurried: AtomicBool::new(false), shown: Mutex::default() }
    }

    /// The number of open pages. A closed page counts until the next message.
    pub fn pages(&self) -> usize {
        self.shown.lock().pages.len()
    }

    /// The drive should be looked at now.
    pub fn hurry(&self) {
        self.hurried.store(true, Ordering::Relaxed);
    }

    /// Whether somebody has wanted that since the last call.
    pub fn is_hurried(&self) -> bool {
        self.hurried.swap(false, Ordering::Relaxed)
    }

    /// For a newly opened page: everything so far, and the messages from then on. They end when the page is too slow for
    /// them: then it must be opened again.
    pub fn open(&self) -> (Arc<str>, Receiver<Arc<str>>) {
        let mut shown = self.shown.lock();
        let (page, messages) = sync_channel(WAITING);
        shown.pages.push(page);
        (self.all(&shown), messages)
    }

    fn all(&self, shown: &Shown) -> Arc<str> {
        match &shown.drive {
            Some((about, now)) => text(&Message::All {
                about,
                control: self.control,
                now,
                blocks: &shown.blocks,
                points: &shown.points,
                events: &shown.events,
            }),
            None => "{}".into(),
        }
    }

    /// The drive or its use has changed: its lines start over.
    pub fn begin(&self, about: About, now: Now, blocks: &str) {
        let mut shown = self.shown.lock();
        if shown.drive.as_ref().is_none_or(|(before, _)| before.image != about.image) {
            shown.points.clear();
        }
        shown.drive = Some((about, now));
        blocks.clone_into(&mut shown.blocks);
        let all = self.all(&shown);
        shown.send(&all);
    }

    /// The result of a look.
    pub fn look(&self, now: Now, point: Point, blocks: &str) {
        let mut shown = self.shown.lock();
        // without power there may be no blocks to see: the last ones seen stay
        let seen = if blocks.is_empty() { shown.blocks.clone() } else { blocks.to_owned() };
        let changed = crate::blocks::changes(&shown.blocks, &seen);
        shown.send(&text(&Message::Look { now: &now, point: &point, blocks: &changed }));
        shown.blocks = seen;
        push(&mut shown.points, point, HISTORY);
        if let Some((_, before)) = &mut shown.drive {
            *before = now;
        }
    }

    /// The drive is no longer in use.
    pub fn end(&self) {
        let mut shown = self.shown.lock();
        if let Some((_, now)) = &mut shown.drive {
            now.state = State::Ended;
        }
        let all = self.all(&shown);
        shown.send(&all);
    }

    /// Something happened.
    pub fn tell(&self, at_ms: u64, text_: impl Into<String>) {
        let event = Event { at_ms, text: text_.into() };
        let mut shown = self.shown.lock();
        shown.send(&text(&Message::Event(&event)));
        push(&mut shown.events, event, EVENTS);
    }
}

impl Shown {
    /// To all pages, except those that have been closed or have too many messages waiting: they get no more.
    fn send(&mut self, message: &Arc<str>) {
        self.pages.retain(|page| page.try_send(Arc::clone(message)).is_ok());
    }
}

fn text(message: &Message<'_>) -> Arc<str> {
    serde_json::to_string(message).expect("messages are plain data").into()
}

fn push<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() == most {
        queue.pop_front();
    }
    queue.push_back(item);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::nothing;

    fn about(image: &str) -> About {
        let shape =
            Shape { channels: 1, dies: 1, planes_per_die: 1, blocks_per_plane: 2, units_per_block: 8 };
        About {
            image: image.into(),
            profile: "p".to_owned(),
            shape,
            capacity_bytes: 1,
            endurance_cycles: 1,
            time: None,
            mounted_on: None,
        }
    }

    fn now(state: State) -> Now {
        Now {
            state,
            amplification: None,
            wear: Wear::default(),
            free_blocks: 0,
            bad_blocks: 0,
            mapped_bytes: 0,
            collection: vec![],
            handles: Vec::new(),
            zones: None,
            recovery: vec![],
            stopped: None,
            files: None,
            longest_hold_ns: 0,
        }
    }

    fn read(message: &str) -> serde_json::Value {
        serde_json::from_str(message).unwrap()
    }

    #[test]
    fn a_page_gets_what_was_shown_and_then_what_changes() {
        let feed = Feed::new(true);
        feed.begin(about("a"), now(State::On), "f0000f0000");
        feed.look(now(State::On), nothing(1), "f0000o1000");
        let (all, told) = feed.open();
        let all = read(&all);
        assert_eq!((&all["kind"], &all["blocks"]), (&"all".into(), &"f0000o1000".into()));
        assert_eq!((all["points"].as_array().unwrap().len(), &all["control"]), (1, &true.into()));
        assert_eq!(feed.pages(), 1);
        feed.look(now(State::On), nothing(2), "f0000o2000");
        let look = read(&told.try_recv().unwrap());
        assert_eq!(look["blocks"]["changed"], serde_json::json!([[1], "o2000"]));
        feed.tell(3, "power went");
        assert_eq!(read(&told.try_recv().unwrap())["text"], "power went");
        feed.end();
        assert_eq!(read(&told.try_recv().unwrap())["now"]["state"], "ended");
    }

    #[test]
    fn a_page_that_is_too_slow_gets_the_messages_that_wait_and_then_must_be_opened_again() {
        let feed = Feed::new(false);
        let (_, slow) = feed.open();
        let (_, quick) = feed.open();
        for number in 0..=WAITING as u64 {
            feed.tell(number, "it goes on");
            quick.try_recv().unwrap();
        }
        assert_eq!(slow.iter().count(), WAITING);
        assert_eq!(feed.pages(), 1);
    }

    #[test]
    fn a_closed_page_counts_no_more_after_the_next_message() {
        let feed = Feed::new(false);
        drop(feed.open());
        assert_eq!(feed.pages(), 1);
        feed.tell(1, "power went");
        assert_eq!(feed.pages(), 0);
    }

    #[test]
    fn blocks_that_cannot_be_seen_stay_as_they_were() {
        let feed = Feed::new(false);
        feed.begin(about("a"), now(State::On), "f0000f0000");
        feed.look(now(State::Off), nothing(1), "");
        assert_eq!(read(&feed.open().0)["blocks"], "f0000f0000");
    }

    #[test]
    fn lines_go_on_for_the_same_image_and_begin_anew_for_another() {
        let feed = Feed::new(false);
        let points = || read(&feed.open().0)["points"].as_array().unwrap().len();
        feed.begin(about("a"), now(State::On), "f0000f0000");
        for at_ms in 0..HISTORY as u64 + 5 {
            feed.look(now(State::On), nothing(at_ms), "f0000f0000");
        }
        assert_eq!(points(), HISTORY);
        feed.begin(about("a"), now(State::On), "f0000f0000");
        assert_eq!(points(), HISTORY);
        feed.begin(about("b"), now(State::On), "f0000f0000");
        assert_eq!(points(), 0);
    }
}
