//! The buffer pool: pages in the host's memory, the least recently used one replaced first.
//!
//! Invariants: a page is written only after the log of its changes; at most one write of a page is in flight; a page leaves the
//! pool only when the drive has all its changes. Pinned pages stay.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use crate::error::StoreError;
use crate::log::Log;
use crate::record::Lsn;
use crate::tables::{PAGE_BYTES, PageOffset, read_i64};
use crate::world::{Host, Path};

struct Frame {
    bytes: Vec<u8>,
    is_loading: bool,
    is_writing: bool,
    pins: u32,
    /// The first change that the drive may not have.
    changed_since: Option<Lsn>,
    used: u64,
}

impl Frame {
    /// Whether nobody uses the page, and the drive has all its changes.
    fn may_go(&self) -> bool {
        self.changed_since.is_none() && !self.is_loading && !self.is_writing && self.pins == 0
    }
}

#[derive(Default)]
struct Frames {
    of: HashMap<u64, Frame>,
    /// The least recently used page first.
    order: BTreeMap<u64, u64>,
    /// Changed pages that are not being written, by their first change.
    dirty: BTreeSet<(Lsn, u64)>,
    ticks: u64,
}

/// The pages in memory.
pub(crate) struct Pool {
    host: Host,
    log: Rc<Log>,
    limit: usize,
    frames: RefCell<Frames>,
    /// Pages with changes before this must be written.
    pub due: Cell<Lsn>,
    pub pages_read: Cell<u64>,
    pub pages_written: Cell<u64>,
}

impl Frames {
    fn touch(&mut self, page: u64) {
        self.ticks += 1;
        let frame = self.of.get_mut(&page).expect("a page in the pool");
        self.order.remove(&frame.used);
        frame.used = self.ticks;
        self.order.insert(self.ticks, page);
    }

    /// The page to replace.
    fn victim(&self) -> Option<u64> {
        self.order.values().find(|page| self.of[page].may_go()).copied()
    }

    fn remove(&mut self, page: u64) {
        let frame = self.of.remove(&page).expect("a page in the pool");
        assert!(frame.may_go(), "page {page} leaves the pool while it is used or changed");
        self.order.remove(&frame.used);
    }
}

impl Pool {
    pub fn new(host: Host, log: Rc<Log>, limit: usize) -> Pool {
        Pool {
            host,
            log,
            limit,
            frames: RefCell::default(),
            due: Cell::new(0),
            pages_read: Cell::new(0),
            pages_written: Cell::new(0),
        }
    }

    /// Brings a page into the pool. It is there until the task waits again.
    pub async fn fetch(&self, path: Path, page: u64) -> Result<(), StoreError> {
        loop {
            let is_loading = self.frames.borrow().of.get(&page).map(|frame| frame.is_loading);
            match is_loading {
                Some(false) => {
                    self.frames.borrow_mut().touch(page);
                    return Ok(());
                }
                Some(true) => {
                    let is_there =
                        || self.frames.borrow().of.get(&page).is_none_or(|frame| !frame.is_loading);
                    self.host.until(|| is_there().then_some(())).await;
                    continue;
                }
                None => {}
            }
            if self.frames.borrow().of.len() >= self.limit && !self.make_room(path).await? {
                continue;
            }
            self.load(path, page).await?;
            return Ok(());
        }
    }

    /// Removes a page from the pool; false if this took time, during which other tasks may have run.
    async fn make_room(&self, path: Path) -> Result<bool, StoreError> {
        let victim = self.frames.borrow().victim();
        if let Some(victim) = victim {
            self.frames.borrow_mut().remove(victim);
            return Ok(true);
        }
        let dirty = self.frames.borrow().dirty.first().copied();
        match dirty {
            Some((_, page)) => self.clean(path, page).await?,
            None => self.host.until(|| self.frames.borrow().victim().map(drop)).await,
        }
        Ok(false)
    }

    async fn load(&self, path: Path, page: u64) -> Result<(), StoreError> {
        let frame = Frame {
            bytes: Vec::new(),
            is_loading: true,
            is_writing: false,
            pins: 0,
            changed_since: None,
            used: 0,
        };
        {
            let mut frames = self.frames.borrow_mut();
            frames.of.insert(page, frame);
            frames.touch(page);
        }
        self.pages_read.set(self.pages_read.get() + 1);
        let bytes = self.host.read(path, page * PAGE_BYTES as u64, PAGE_BYTES).await?;
        let mut frames = self.frames.borrow_mut();
        let frame = frames.of.get_mut(&page).expect("a page that is loaded stays");
        frame.bytes = bytes;
        frame.is_loading = false;
        Ok(())
    }

    /// Writes a changed page, after the log of its changes.
    pub async fn clean(&self, path: Path, page: u64) -> Result<(), StoreError> {
        let (bytes, since) = {
            let mut frames = self.frames.borrow_mut();
            let frame = frames.of.get_mut(&page).expect("a changed page is in the pool");
            assert!(!frame.is_writing, "page {page} is written twice at once");
            frame.is_writing = true;
            let since = frame.changed_since.expect("the page was changed");
            let bytes = frame.bytes.clone();
            frames.dirty.remove(&(since, page));
            (bytes, since)
        };
        let written = read_i64(&bytes, 0) as Lsn;
        self.log.wait_beyond(written).await;
        assert!(self.log.is_durable(written), "page {page} goes before its log, {written}");
        self.host.write(path, page * PAGE_BYTES as u64, &bytes).await?;
        self.pages_written.set(self.pages_written.get() + 1);
        let mut frames = self.frames.borrow_mut();
        let frame = frames.of.get_mut(&page).expect("a page that is written stays");
        frame.is_writing = false;
        // changes made meanwhile come after what was written; redo begins at a record, so it begins with the first of
        // them
        let is_newer = read_i64(&frame.bytes, 0) as Lsn != written;
        frame.changed_since = is_newer.then_some(written);
        if is_newer {
            frames.dirty.insert((written, page));
        }
        debug_assert!(since <= written);
        Ok(())
    }

    /// The bytes of a page that was just fetched.
    pub fn bytes(&self, place: PageOffset, length: usize) -> Vec<u8> {
        self.frames.borrow().of[&place.page].bytes[place.offset..][..length].to_vec()
    }

    /// Changes a page that was just fetched, as the log records at `lsn`.
    pub fn change(&self, place: PageOffset, bytes: &[u8], lsn: Lsn) {
        let mut frames = self.frames.borrow_mut();
        let frame = frames.of.get_mut(&place.page).expect("the page was just fetched");
        frame.bytes[place.offset..][..bytes.len()].copy_from_slice(bytes);
        frame.bytes[..8].copy_from_slice(&lsn.to_le_bytes());
        if frame.changed_since.is_none() {
            frame.changed_since = Some(lsn);
            if !frame.is_writing {
                frames.dirty.insert((lsn, place.page));
            }
        }
    }

    /// Changes a page whose change the drive will have made before the page is replaced; it was just fetched, and is
    /// pinned.
    pub fn change_pinned(&self, place: PageOffset, bytes: &[u8]) {
        let mut frames = self.frames.borrow_mut();
        let frame = frames.of.get_mut(&place.page).expect("a pinned page stays");
        frame.bytes[place.offset..][..bytes.len()].copy_from_slice(bytes);
    }

    pub fn pin(&self, page: u64) {
        self.frames.borrow_mut().of.get_mut(&page).expect("the page was just fetched").pins += 1;
    }

    pub fn unpin(&self, page: u64) {
        self.frames.borrow_mut().of.get_mut(&page).expect("a pinned page stays").pins -= 1;
    }

    /// Changed pages with their first change that the drive may not have.
    pub fn changed(&self) -> Vec<(u64, Lsn)> {
        let frames = self.frames.borrow();
        let mut changed: Vec<(u64, Lsn)> =
            frames.of.iter().filter_map(|(page, frame)| Some((*page, frame.changed_since?))).collect();
        changed.sort_unstable();
        changed
    }

    /// Whether a page has changes before this.
    pub fn has_changes_before(&self, lsn: Lsn) -> bool {
        self.frames.borrow().of.values().any(|frame| frame.changed_since.is_some_and(|since| since < lsn))
    }

    /// A task that writes changed pages: those due for a checkpoint, and the oldest when half of the pool is dirty, so that
    /// clients find pages to replace.
    pub async fn clean_in_background(self: Rc<Pool>, path: Path) -> Result<(), StoreError> {
        loop {
            let page = self
                .host
                .until(|| {
                    let frames = self.frames.borrow();
                    let (since, page) = *frames.dirty.first()?;
                    (since < self.due.get() || frames.dirty.len() > self.limit / 2).then_some(page)
                })
                .await;
            self.clean(path, page).await?;
        }
    }
}
