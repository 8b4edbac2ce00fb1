//! A drive with what it must hold, and the checks after a step of a command has failed.

use std::collections::{BTreeMap, BTreeSet};

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{
    Command, Completion, Device, FailingStep, FileEntry, FileId, Generation, Hint, Key, KvRecord, Lpn,
    NamespaceAttributes, NamespaceId, PowerLoss, Profile, ShareRange, Status, StepFault, TxId, UNIT_BYTES,
};

use super::commands::{Op, value_bytes};
use super::model::{COLD, Effect, HOT, LOG, Model, Name};

pub struct Subject {
    device: Device,
    now_ns: u64,
    model: Model,
    random: Xoshiro256PlusPlus,
    stamp: u32,
    has_lists: bool,
    /// Whether pages may have become unreadable.
    loses: bool,
    /// What could not be read the last time: a cut brings none of it back.
    lost: BTreeSet<What>,
    named: Named,
    story: String,
}

/// What the last commands of their kinds named.
#[derive(Clone, Copy, Default)]
struct Named {
    tx: TxId,
    generation: Generation,
    namespace: NamespaceId,
}

/// What is read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum What {
    Unit(u32),
    Record(Name),
}

/// The value of a unit or record that cannot be read.
const LOST: u32 = u32::MAX;

fn unit_of(stamp: u32) -> Vec<u8> {
    stamp.to_le_bytes().repeat(UNIT_BYTES / 4)
}

fn key_of(name: Name) -> Key {
    // every other key is too long to be known by its hash
    let text =
        if name.1.is_multiple_of(2) { format!("k{}", name.1) } else { format!("a long key {:05}", name.1) };
    Key::new(text.as_bytes()).unwrap()
}

fn value_of(stamp: u32) -> Vec<u8> {
    let mut value = unit_of(stamp).repeat(3);
    value.truncate(value_bytes(stamp));
    value
}

fn record<'a>(
    namespaces: &[Option<NamespaceId>; 3],
    name: Name,
    value: &'a [u8],
    stamp: u32,
) -> KvRecord<'a> {
    let namespace = namespaces[name.0].expect("the namespace is there");
    KvRecord { namespace, key: key_of(name), value: (stamp != 0).then_some(value) }
}

impl Subject {
    /// A drive that is full of cold units, so that garbage is collected, and has namespaces with and without logs of their
    /// own.
    pub fn new(profile: &Profile, seed: u64) -> Subject {
        let device = Device::in_memory(profile).unwrap();
        let has_lists = device.limits().files > 0;
        let protected = profile.power.plp == tantalum::Plp::Capacitor;
        let durable_writes = protected || device.is_write_through();
        let mut subject = Subject {
            device,
            now_ns: 0,
            model: Model { protected, durable_writes, ..Model::default() },
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            stamp: 100,
            has_lists,
            loses: false,
            lost: BTreeSet::new(),
            named: Named::default(),
            story: String::new(),
        };
        subject.fill();
        subject
    }

    /// Cold units up to what namespaces leave, written several times.
    fn fill(&mut self) {
        for index in 0..2 {
            self.run(&Op::Create { index }, "setup");
        }
        let cold = self.cold();
        let data = unit_of(COLD);
        for round in 0..3 {
            for lpn in cold.clone().filter(|lpn| round == 0 || (lpn * 7 + round) % 3 == 0) {
                let write = Command::Write { lpn: Lpn(lpn), data: &data, fua: false, handle: None };
                self.now_ns = self.device.submit(write, self.now_ns).unwrap().done_ns;
            }
        }
        self.run(&Op::Flush, "setup");
        for lpn in (0..HOT - 16).step_by(3) {
            self.stamp += 1;
            self.run(&Op::Write { lpn, units: 3, stamp: self.stamp, fua: false }, "setup");
        }
    }

    fn cold(&self) -> std::ops::Range<u32> {
        HOT..(self.device.profile().capacity_units() * 7 / 8) as u32
    }

    /// The next command.
    pub fn draw(&mut self) -> Op {
        Op::draw(&mut self.random, &self.model, &mut self.stamp, self.has_lists)
    }

    pub fn fork(&self, story: String) -> Subject {
        Subject {
            device: self.device.try_clone().unwrap(),
            model: self.model.clone(),
            random: self.random.clone(),
            lost: self.lost.clone(),
            story,
            ..*self
        }
    }

    pub fn arm(&mut self, fault: StepFault) {
        self.loses |= fault.step == FailingStep::Read;
        self.device.fail_step(Some(fault)).unwrap();
    }

    /// Returns whether the step has failed.
    pub fn disarm(&mut self) -> bool {
        let failed = self.device.step_has_failed();
        self.device.fail_step(None).unwrap();
        failed
    }

    /// Whether it keeps indexes only on flash.
    pub fn swaps(&self) -> bool {
        self.device.profile().limits.index_dram_bytes.is_some()
    }

    pub fn has_stopped(&self) -> bool {
        self.device.refuses_changes().is_some()
    }

    /// Runs a command that must succeed.
    pub fn run(&mut self, op: &Op, story: &str) {
        story.clone_into(&mut self.story);
        let answer = self.submit(op);
        answer.unwrap_or_else(|status| panic!("{story}: {status}"));
        self.succeeded(op);
    }

    fn succeeded(&mut self, op: &Op) {
        let effect = op.effect(&self.model);
        self.model.apply(&effect);
        match op {
            Op::Begin => self.model.tx = Some((self.named.tx, BTreeMap::new())),
            Op::TxWrite { lpn, stamp } => {
                self.model.tx.as_mut().unwrap().1.insert(*lpn, *stamp);
            }
            Op::Commit | Op::Abort => self.model.tx = None,
            Op::BeginLog => self.model.log = Some((self.named.generation, 0)),
            Op::Hinted { .. } => self.model.log.as_mut().unwrap().1 += 1,
            Op::Create { index } => self.model.namespaces[*index] = Some(self.named.namespace),
            Op::DeleteNamespace { index } => self.model.namespaces[*index] = None,
            _ => {}
        }
    }

    /// Submits a command, and waits for it.
    pub fn submit(&mut self, op: &Op) -> Result<Completion, Status> {
        let done = self.submit_only(op);
        match &done {
            Ok(done) => self.now_ns = self.now_ns.max(done.done_ns),
            Err(_) => self.note_loss(),
        }
        done
    }

    /// A host learns of a loss once no cut can undo it.
    fn note_loss(&mut self) {
        if self.loses {
            self.now_ns = self.now_ns.max(self.device.time_ns());
        }
    }

    fn submit_only(&mut self, op: &Op) -> Result<Completion, Status> {
        let (at_ns, namespaces) = (self.now_ns, self.model.namespaces);
        let tx = self.model.tx.as_ref().map(|tx| tx.0);
        let device = &mut self.device;
        match op {
            Op::Write { lpn, units, stamp, fua } => {
                let data = unit_of(*stamp).repeat(*units as usize);
                device.submit(Command::Write { lpn: Lpn(*lpn), data: &data, fua: *fua, handle: None }, at_ns)
            }
            Op::Trim { lpn, units, zeroes: false } => {
                device.submit(Command::Trim { lpn: Lpn(*lpn), units: *units }, at_ns)
            }
            Op::Trim { lpn, units, .. } => {
                device.submit(Command::WriteZeroes { lpn: Lpn(*lpn), units: *units }, at_ns)
            }
            Op::Flush => device.submit(Command::Flush, at_ns),
            Op::Share { ranges, deferred } => {
                let ranges: Vec<ShareRange> = ranges
                    .iter()
                    .map(|(dst, src)| ShareRange { dst: Lpn(*dst), src: Lpn(*src), units: 1 })
                    .collect();
                device.submit(Command::Share { ranges: &ranges, deferred: *deferred }, at_ns)
            }
            Op::Remap { src, dst, units } => {
                device.submit(Command::Remap { src: Lpn(*src), dst: Lpn(*dst), units: *units }, at_ns)
            }
            Op::Batch { units, records } => {
                let data: Vec<Vec<u8>> = units.values().map(|stamp| unit_of(*stamp)).collect();
                let writes: Vec<(Lpn, &[u8])> =
                    units.keys().zip(&data).map(|(lpn, data)| (Lpn(*lpn), &data[..])).collect();
                let values: Vec<Vec<u8>> = records.values().map(|stamp| value_of(*stamp)).collect();
                let records: Vec<KvRecord<'_>> = records
                    .iter()
                    .zip(&values)
                    .map(|((name, stamp), value)| record(&namespaces, *name, value, *stamp))
                    .collect();
                match records.is_empty() {
                    true => device.submit(Command::WriteAtomic { writes: &writes }, at_ns),
                    false => device.submit(Command::WriteBatch { writes: &writes, records: &records }, at_ns),
                }
            }
            Op::Put { records } => {
                let values: Vec<Vec<u8>> = records.values().map(|stamp| value_of(*stamp)).collect();
                let records: Vec<KvRecord<'_>> = records
                    .iter()
                    .zip(&values)
                    .map(|((name, stamp), value)| record(&namespaces, *name, value, *stamp))
                    .collect();
                device.submit(Command::KvPut { records: &records }, at_ns)
            }
            Op::Delete { name } => {
                let namespace = namespaces[name.0].unwrap();
                device.submit(Command::KvDelete { namespace, key: key_of(*name) }, at_ns)
            }
            Op::Begin => device.submit(Command::Begin { tx: &mut self.named.tx }, at_ns),
            Op::TxWrite { lpn, stamp } => {
                let data = unit_of(*stamp);
                device.submit(Command::TxWrite { tx: tx.unwrap(), lpn: Lpn(*lpn), data: &data }, at_ns)
            }
            Op::Commit => device.submit(Command::Commit { tx: tx.unwrap() }, at_ns),
            Op::Abort => device.submit(Command::Abort { tx: tx.unwrap() }, at_ns),
            Op::BeginLog => {
                let generation = &mut self.named.generation;
                device.submit(Command::BeginLog { generation }, at_ns)
            }
            Op::Hinted { stamp, home } => {
                let (generation, slot) = self.model.log.unwrap();
                let (data, number) = (unit_of(*stamp), slot + 1);
                let home = Some(Lpn(*home));
                let hint =
                    Hint { generation, attempt: 0, start: 1, first: number, slot: number, end: true, home };
                let lpn = Lpn(LOG.start + slot);
                device.submit(Command::WriteHinted { lpn, data: &data, metadata: &[0; 24], hint }, at_ns)
            }
            Op::Create { index } => {
                let logs = u32::from(*index == 1 && !self.model.protected);
                let attributes = NamespaceAttributes { logs, ..NamespaceAttributes::default() };
                let namespace = &mut self.named.namespace;
                device.submit(Command::CreateNamespace { attributes, namespace }, at_ns)
            }
            Op::DeleteNamespace { index } => {
                device.submit(Command::DeleteNamespace { namespace: namespaces[*index].unwrap() }, at_ns)
            }
            Op::FsWrite { lpn, units, stamp, file, offset } => {
                let data = unit_of(*stamp).repeat(*units as usize);
                let (file, offset) = (FileId(*file), *offset);
                device.submit(Command::FsWrite { lpn: Lpn(*lpn), data: &data, file, offset }, at_ns)
            }
            Op::ClearLists { file } => {
                device.submit(Command::ClearFileLists { file: file.map(FileId) }, at_ns)
            }
            Op::Read { lpn, units } => {
                let mut data = vec![0; *units as usize * UNIT_BYTES];
                device.submit(Command::Read { lpn: Lpn(*lpn), data: &mut data }, at_ns)
            }
            Op::Get { name } => {
                let (namespace, mut value) = (namespaces[name.0].unwrap(), Vec::new());
                let got =
                    device.submit(Command::KvGet { namespace, key: key_of(*name), value: &mut value }, at_ns);
                got.or_else(|status| match status {
                    Status::NoSuchKey { .. } => Ok(Completion { done_ns: at_ns }),
                    status => Err(status),
                })
            }
            Op::List { index } => {
                let (namespace, mut keys) = (namespaces[*index].unwrap(), Vec::new());
                device.submit(Command::KvList { namespace, from: None, keys: &mut keys, limit: 100 }, at_ns)
            }
        }
    }

    // -- checks -----------------------------------------------------------------------------------------------------

    /// A step of this command has failed, and this is its answer.
    pub fn check_after(mut self, op: &Op, answer: Result<Completion, Status>, number: u64) {
        let effect = op.effect(&self.model);
        if self.has_stopped() {
            return self.check_stopped(op, &effect, answer.is_ok());
        }
        match answer {
            Ok(_) => self.succeeded(op),
            Err(status) => {
                let only_reads = matches!(op, Op::Read { .. } | Op::Get { .. } | Op::List { .. });
                assert!(only_reads || !status.leaves_doubt(), "{}: goes on after {status}", self.story);
                if !effect.atomic {
                    let found: BTreeMap<u32, u32> =
                        effect.units.keys().map(|lpn| (*lpn, self.read_or(*lpn, &effect))).collect();
                    self.model.apply_in_part(&effect, |lpn| found[&lpn]);
                }
                self.check_running(None);
                if number % 2 == 1 {
                    self.try_again(op);
                }
            }
        }
        self.check_running(None);
        self.check_flash();
        if number % 3 == 2 {
            // what was left over does not harm what comes next
            for _ in 0..6 {
                let op = self.draw();
                self.try_again(&op);
            }
            self.check_running(None);
        }
        self.cut(None);
    }

    /// The command succeeds now, unless flash was lost.
    fn try_again(&mut self, op: &Op) {
        match self.submit(op) {
            Ok(_) => self.succeeded(op),
            Err(Status::Unreadable { .. } | Status::RecordUnreadable { .. }) if self.loses => {}
            // the drive's own pages may be lost too: then it stops
            Err(Status::Damaged(_)) if self.loses => self.model = self.model_in_doubt(op),
            Err(Status::ReadOnly | Status::CapacityExceeded) if self.has_lost_blocks() => {
                let effect = op.effect(&self.model);
                if !effect.atomic {
                    let found: BTreeMap<u32, u32> =
                        effect.units.keys().map(|lpn| (*lpn, self.read_or(*lpn, &effect))).collect();
                    self.model.apply_in_part(&effect, |lpn| found[&lpn]);
                }
            }
            Err(status) => panic!("{}: then {op:?}: {status}", self.story),
        }
    }

    /// The command may have been done.
    fn model_in_doubt(&mut self, op: &Op) -> Model {
        let effect = op.effect(&self.model);
        let found: BTreeMap<u32, u32> =
            effect.units.keys().map(|lpn| (*lpn, self.read_or(*lpn, &effect))).collect();
        let mut model = self.model.clone();
        model.apply_in_part(&effect, |lpn| found[&lpn]);
        effect.records.keys().for_each(|name| drop(model.records.remove(name)));
        model
    }

    /// Blocks have failed, so that there may be too few.
    fn has_lost_blocks(&self) -> bool {
        let counters = self.device.smart().counters;
        counters.program_failures + counters.erase_failures > 0
    }

    /// The drive has stopped: it accepts no change, and what it has can be read.
    fn check_stopped(mut self, op: &Op, effect: &Effect, acknowledged: bool) {
        let write = Op::Write { lpn: 0, units: 1, stamp: 99, fua: true };
        let refused = self.submit(&write).map(drop).expect_err(&self.story);
        assert!(refused.leaves_doubt() || refused == Status::ReadOnly, "{}: {refused}", self.story);
        if acknowledged {
            self.model.apply(effect);
            self.check_running(None);
            return self.cut(None);
        }
        self.check_running(Some((op, effect)));
        self.cut(Some((op, effect)));
    }

    /// What a unit reads as, which may be what the command gives it.
    fn read_or(&mut self, lpn: u32, effect: &Effect) -> u32 {
        let found = self.read(lpn);
        let known = [self.model.unit(lpn), effect.units[&lpn]];
        match found {
            LOST => known[0],
            _ => {
                assert!(
                    known.contains(&found),
                    "{}: unit {lpn} reads {found}, allowed {known:?}",
                    self.story
                );
                found
            }
        }
    }

    fn check_flash(&mut self) {
        assert_eq!(self.device.stray_buffers(), 0, "{}: buffers are lost", self.story);
        self.device.audit();
        if !self.loses {
            self.device.audit_flash().unwrap();
        }
    }

    fn read(&mut self, lpn: u32) -> u32 {
        let mut data = [0xEE; UNIT_BYTES];
        match self.device.submit(Command::Read { lpn: Lpn(lpn), data: &mut data }, self.now_ns) {
            Ok(_) => {}
            Err(Status::Unreadable { .. } | Status::Damaged(_)) if self.loses => {
                self.note_loss();
                return LOST;
            }
            Err(status) => panic!("{}: unit {lpn}: {status}", self.story),
        }
        assert!(data.chunks(4).all(|word| word == &data[..4]), "{}: unit {lpn} is torn", self.story);
        u32::from_le_bytes(data[..4].try_into().unwrap())
    }

    fn get(&mut self, namespace: NamespaceId, name: Name) -> u32 {
        let mut value = Vec::new();
        let get = Command::KvGet { namespace, key: key_of(name), value: &mut value };
        match self.device.submit(get, self.now_ns) {
            Err(Status::NoSuchKey { .. }) => return 0,
            Err(Status::RecordUnreadable { .. } | Status::Damaged(_)) if self.loses => {
                self.note_loss();
                return LOST;
            }
            got => drop(got.unwrap_or_else(|status| panic!("{}: {name:?}: {status}", self.story))),
        }
        let stamp = u32::from_le_bytes(value[..4].try_into().unwrap());
        assert!(value == value_of(stamp), "{}: the value of {name:?} is torn", self.story);
        stamp
    }

    fn list(&mut self, file: u32) -> Vec<(u32, u32)> {
        let mut entries: Vec<FileEntry> = Vec::new();
        self.device
            .submit(Command::ReadFileList { file: FileId(file), entries: &mut entries }, self.now_ns)
            .unwrap();
        entries.iter().map(|entry| (entry.lpn.0, entry.offset)).collect()
    }

    fn lists(&mut self) -> BTreeMap<u32, Vec<(u32, u32)>> {
        let files = if self.has_lists { 1..4 } else { 0..0 };
        files.map(|file| (file, self.list(file))).filter(|(_, list)| !list.is_empty()).collect()
    }

    /// What the failed command was to change is not read.
    fn check_refused(&mut self, what: &str, read: Command<'_>) {
        let why = self.device.refuses_changes().cloned();
        let read = self.device.submit(read, self.now_ns).map(drop);
        assert_eq!(read.err(), why, "{}: {what} is read", self.story);
    }

    /// Every unit and record is what it was, except that what a command of unknown effect was to change is not read.
    fn check_running(&mut self, doubt: Option<(&Op, &Effect)>) {
        for lpn in 0..HOT {
            if doubt.is_some_and(|(_, effect)| effect.units.contains_key(&lpn) || effect.claims == Some(lpn))
            {
                let data = &mut [0; UNIT_BYTES];
                self.check_refused(&format!("unit {lpn}"), Command::Read { lpn: Lpn(lpn), data });
                continue;
            }
            let (found, known) = (self.read(lpn), self.model.unit(lpn));
            assert!(
                [known, LOST].contains(&found),
                "{}: unit {lpn} reads {found}, it holds {known}",
                self.story
            );
            self.note_found(What::Unit(lpn), found);
        }
        self.check_cold();
        let is_deleted = matches!(doubt, Some((Op::DeleteNamespace { .. }, _)));
        for (name, record) in self.model.records.clone() {
            let Some(namespace) = self.model.namespaces[name.0] else { continue };
            if is_deleted && name.0 == 2
                || doubt.is_some_and(|(_, effect)| effect.records.contains_key(&name))
            {
                let get = Command::KvGet { namespace, key: key_of(name), value: &mut Vec::new() };
                self.check_refused(&format!("record {name:?}"), get);
                continue;
            }
            let found = self.get(namespace, name);
            assert!(
                [record.now, LOST].contains(&found),
                "{}: record {name:?} is {found}, it holds {}",
                self.story,
                record.now
            );
            self.note_found(What::Record(name), found);
        }
        if let Some((tx, pages)) = self.model.tx.clone()
            && doubt.is_none()
        {
            for (lpn, stamp) in pages {
                let mut data = [0; UNIT_BYTES];
                let read = Command::TxRead { tx, lpn: Lpn(lpn), data: &mut data };
                match self.device.submit(read, self.now_ns) {
                    Err(Status::Unreadable { .. } | Status::Damaged(_)) if self.loses => continue,
                    read => drop(read.unwrap_or_else(|status| panic!("{}: {status}", self.story))),
                }
                assert!(data == unit_of(stamp)[..], "{}: unit {lpn} of the transaction", self.story);
            }
        }
        if doubt.is_none() {
            assert_eq!(self.lists(), self.lists_now(), "{}", self.story);
        }
    }

    fn lists_now(&self) -> BTreeMap<u32, Vec<(u32, u32)>> {
        let lists = self.model.lists.clone();
        lists.into_iter().filter(|(_, list)| !list.is_empty()).collect()
    }

    fn check_cold(&mut self) {
        for lpn in self.cold().step_by(17) {
            let found = self.read(lpn);
            assert!([COLD, LOST].contains(&found), "{}: cold unit {lpn} reads {found}", self.story);
            self.note_found(What::Unit(lpn), found);
        }
    }

    fn check_cold_after_cut(&mut self) {
        for lpn in self.cold().step_by(17) {
            let found = self.read(lpn);
            self.check_loss(What::Unit(lpn), found);
            assert!([COLD, LOST].contains(&found), "{}: cold {lpn}: {found}", self.story);
        }
    }

    fn note_found(&mut self, what: What, found: u32) {
        match found {
            LOST => self.lost.insert(what),
            _ => self.lost.remove(&what),
        };
    }

    /// What could not be read before a cut cannot be read now, and nothing else.
    fn check_loss(&self, what: What, found: u32) {
        let was_lost = self.lost.contains(&what);
        assert!((found == LOST) == was_lost, "{}: after a cut {what:?} is {found}", self.story);
    }

    /// Power is lost and comes back.
    fn cut(mut self, doubt: Option<(&Op, &Effect)>) {
        self.device.cut_power(self.now_ns);
        let seed = self.random.clone().next_u64();
        let recovered = self.device.power_on(&mut PowerLoss::seeded(seed));
        if self.loses && recovered.is_err() {
            // pages of a checkpoint are lost
            return;
        }
        recovered.unwrap_or_else(|error| panic!("{}: recovery: {error}", self.story));
        self.now_ns = self.device.time_ns();
        self.check_flash();
        let (mut old, mut new) = (true, true);
        for lpn in 0..HOT {
            let found = self.read(lpn);
            self.check_loss(What::Unit(lpn), found);
            let known = self.model.units.get(&lpn).cloned().unwrap_or_default();
            let may = doubt.and_then(|(_, effect)| Some(*effect.units.get(&lpn)?));
            let claims = doubt.is_some_and(|(_, effect)| effect.claims == Some(lpn));
            assert!(
                found == LOST || known.allows(found) || may == Some(found) || claims,
                "{}: after a cut unit {lpn} reads {found}; known {known:?}, in doubt {may:?}",
                self.story
            );
            if let Some(may) = may.filter(|_| found != LOST) {
                old &= known.allows(found);
                new &= found == may;
            }
        }
        self.check_cold_after_cut();
        let there: Vec<NamespaceId> = self.device.namespaces().iter().map(|info| info.namespace).collect();
        for (name, record) in self.model.records.clone() {
            let Some(namespace) = self.model.namespaces[name.0] else { continue };
            if !there.contains(&namespace) {
                let deleted = matches!(doubt, Some((Op::DeleteNamespace { .. }, _)));
                assert!(deleted && name.0 == 2, "{}: namespace {namespace} is gone", self.story);
                continue;
            }
            let found = self.get(namespace, name);
            self.check_loss(What::Record(name), found);
            let deletes = matches!(doubt, Some((Op::DeleteNamespace { .. }, _)));
            let may = doubt.filter(|_| !deletes).and_then(|(_, effect)| Some(*effect.records.get(&name)?));
            assert!(
                found == LOST || record.allows(found) || may == Some(found),
                "{}: after a cut record {name:?} is {found}; known {record:?}, in doubt {may:?}",
                self.story
            );
            if let Some(may) = may.filter(|_| found != LOST) {
                old &= record.allows(found);
                new &= found == may;
            }
        }
        if doubt.is_some_and(|(_, effect)| effect.atomic) {
            assert!(old || new, "{}: the command is done in part", self.story);
        }
        let lists = self.lists();
        let may = doubt.and_then(|(_, effect)| effect.lists.clone());
        assert!(lists == self.lists_now() || Some(&lists) == may.as_ref(), "{}: {lists:?}", self.story);
        self.model.settle();
        // it works
        self.story.push_str(", after the cut");
        if !self.device.is_read_only() {
            let op = Op::Write { lpn: 3, units: 2, stamp: 77, fua: true };
            self.try_again(&op);
            self.try_again(&Op::Flush);
        }
    }
}
