//! What one block or record may hold: the versions that commands have made of it.
//!
//! A version is *over* when a durable one was sent after it had ended. While the drive keeps its power, a command that was
//! sent later also finds none that was followed, before it was sent, by one that is done.

use rustc_hash::FxHashMap;

use super::spot::{Moment, Spot, Sum};

/// The bytes of a version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// Bytes with this checksum.
    Is(Sum),
    /// Those with one of these checksums.
    OneOf(Vec<Sum>),
    /// What another spot holds when the command takes place, which has not ended.
    Like(Spot),
    /// Unknown.
    Unknown,
}

/// What a command made of a spot.
#[derive(Clone, Debug)]
struct Version {
    content: Content,
    /// When its command was sent, which names it.
    sent: Moment,
    /// When its command had ended: it took place before that, or never does.
    ended: Option<Moment>,
    /// Whether it took place, and is not only one that may have.
    is_done: bool,
    is_durable: bool,
    /// Whether its command is all or nothing.
    is_step: bool,
}

impl Content {
    /// Whether it may have this checksum.
    pub fn may_be(&self, found: Sum) -> bool {
        match self {
            Content::Is(sum) => *sum == found,
            Content::OneOf(sums) => sums.contains(&found),
            Content::Like(_) | Content::Unknown => true,
        }
    }
}

impl Version {
    /// A version that has been there before anything else, and is durable.
    fn before_all(content: Content) -> Version {
        Version { content, sent: 0, ended: Some(0), is_done: true, is_durable: true, is_step: false }
    }

    fn ended_before(&self, moment: Moment) -> bool {
        self.ended.is_some_and(|ended| ended < moment)
    }
}

/// Whether what was found in a spot shows that a command took place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Evidence {
    /// The command took place.
    Happened,
    /// The command did not take place.
    Missing,
}

/// The versions of a spot.
#[derive(Clone, Debug)]
pub struct Versions {
    versions: Vec<Version>,
    /// The last one that is over, for the report.
    over: Option<Content>,
}

impl Versions {
    /// Of a spot with one version.
    pub fn only(content: Content) -> Versions {
        Versions { versions: vec![Version::before_all(content)], over: None }
    }

    /// A command that was sent at this moment may make another one. `is_step` says whether it is all or nothing.
    pub fn begin(&mut self, sent: Moment, content: Content, is_step: bool) {
        let (ended, is_done, is_durable) = (None, false, false);
        self.versions.push(Version { content, sent, ended, is_done, is_durable, is_step });
    }

    /// The command that was sent at this moment has ended now: whether it took place, and is durable. `contents` says what it has
    /// found where it copied from.
    pub fn end(
        &mut self,
        sent: Moment,
        now: Moment,
        is_done: bool,
        is_durable: bool,
        contents: &FxHashMap<Spot, Content>,
    ) {
        assert!(sent < now, "a command that was sent at {sent} ends at {now}");
        for version in self.of(sent) {
            version.ended = Some(now);
            version.is_done = is_done;
            version.is_durable = is_done && is_durable;
            if let Content::Like(from) = &version.content {
                version.content = contents.get(from).cloned().unwrap_or(Content::Unknown);
            }
        }
    }

    /// The command that was sent at this moment has ended now; nobody knows whether it took place here.
    pub fn end_unknown(&mut self, sent: Moment, now: Moment) {
        assert!(sent < now, "a command that was sent at {sent} ends at {now}");
        self.of(sent).for_each(|version| version.ended = Some(now));
    }

    fn of(&mut self, sent: Moment) -> impl Iterator<Item = &mut Version> {
        self.versions.iter_mut().filter(move |version| version.sent == sent)
    }

    /// What a command copies from.
    pub fn sources(&self, sent: Moment) -> impl Iterator<Item = Spot> {
        self.versions.iter().filter(move |version| version.sent == sent).filter_map(|version| {
            match version.content {
                Content::Like(from) => Some(from),
                _ => None,
            }
        })
    }

    /// A command changed nothing.
    pub fn remove(&mut self, sent: Moment) {
        self.versions.retain(|version| version.sent != sent);
        self.assert_some();
    }

    /// Checks that it may hold something.
    fn assert_some(&self) {
        assert!(
            !self.versions.is_empty(),
            "nothing may be there, and the last that was over is {:?}",
            self.over
        );
    }

    /// A flush that was sent at this moment is done. False if no later flush can change anything here.
    pub fn flush(&mut self, sent: Moment) -> bool {
        for version in &mut self.versions {
            version.is_durable |= version.is_done && version.ended_before(sent);
        }
        self.versions.len() > 1 || !self.versions[0].is_durable
    }

    fn is_over(&self, version: &Version) -> bool {
        self.versions.iter().any(|other| other.is_durable && version.ended_before(other.sent))
    }

    /// Forgets versions that are over, unless a command that was sent at `since` or later may have found them.
    pub fn forget(&mut self, since: Moment) {
        let all = std::mem::take(&mut self.versions);
        let follows = |version: &Version, other: &Version| {
            other.is_durable && version.ended_before(other.sent) && other.ended_before(since)
        };
        for version in &all {
            if all.iter().any(|other| follows(version, other)) {
                self.over = Some(version.content.clone());
            } else {
                self.versions.push(version.clone());
            }
        }
        self.assert_some();
    }

    /// What a command finds that was sent at this moment and takes place now, or took place since, on a drive that has kept
    /// its power. Versions of the command `without` do not count.
    pub fn found_since(&self, sent: Moment, without: Option<Moment>) -> impl Iterator<Item = &Content> {
        let followed = move |version: &Version| {
            self.versions
                .iter()
                .any(|other| other.is_done && other.ended_before(sent) && version.ended_before(other.sent))
        };
        self.versions
            .iter()
            .filter(move |version| Some(version.sent) != without && !followed(version))
            .map(|version| &version.content)
    }

    /// Whether power loss may have left this here.
    pub fn may_be(&self, found: Sum) -> bool {
        self.allowed(found).next().is_some()
    }

    /// Whether this was here, and must not be any more.
    pub fn was(&self, found: Sum) -> bool {
        let over =
            self.versions.iter().filter(|version| self.is_over(version)).map(|version| &version.content);
        over.chain(&self.over).any(|content| *content != Content::Unknown && content.may_be(found))
    }

    /// The versions that power loss may have left and that may hold this.
    fn allowed(&self, found: Sum) -> impl Iterator<Item = &Version> {
        self.versions.iter().filter(move |version| version.content.may_be(found) && !self.is_over(version))
    }

    /// What this shows about steps, by the moments at which they were sent.
    pub fn evidence(&self, found: Sum) -> Vec<(Moment, Evidence)> {
        let allowed: Vec<&Version> = self.allowed(found).collect();
        let of = |step: &Version| match &allowed[..] {
            [] => None,
            [only] if only.sent == step.sent => Some(Evidence::Happened),
            all if all.iter().all(|version| version.ended_before(step.sent)) => Some(Evidence::Missing),
            _ => None,
        };
        let steps = self.versions.iter().filter(|version| version.is_step && !self.is_over(version));
        steps.filter_map(|step| Some((step.sent, of(step)?))).collect()
    }
}
