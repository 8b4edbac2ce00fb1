//! Mutate an image and open it: shared by `damaged_images.rs` and the fuzz target in `fuzz/`.
//!
//! A damaged image gives an error, or a drive on which every unit reads as its last contents, or as a read error.
//! Anything else panics here, and so does a panic of the drive.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use tantalum::check::{Check, Repair, check, repair};
use tantalum::{
    Access, CacheMode, CacheProfile, Command, Device, DeviceError, FirmwareProfile, FlashProfile,
    FlashScheduling, FtlProfile, Generation, Hint, LimitsProfile, LinkProfile, Lpn, METADATA_BYTES, Plp,
    PowerProfile, Profile, ShareRange, SpuProfile, Status, TxId, UNIT_BYTES, VictimPolicy,
};

const UNITS: u32 = 256;
/// The log's pages; their homes are the units 32 below.
const LOG: std::ops::Range<u32> = 200..216;

/// How the process that worked on the image ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The drive was shut down.
    ShutDown,
    /// It was killed, everything being flushed.
    Killed,
}

/// An image in a file, its contents, and an older copy of it.
pub struct Specimen {
    path: PathBuf,
    file: File,
    image: Vec<u8>,
    older: Vec<u8>,
    /// What each unit holds: the number that fills it, or 0 if it is not mapped.
    stamps: Vec<u64>,
}

/// A mutation of an image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mutation {
    /// A bit flips.
    Flip { at: u64, bit: u8 },
    /// The end is missing.
    Truncate { bytes: u64 },
    /// A piece is that of an older copy.
    Splice { at: u64, bytes: u64 },
}

/// The result of a mutation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It was not opened.
    Refused,
    /// Every unit reads right.
    Right,
    /// This many units read as errors, all others correctly.
    Unreadable(u32),
}

fn profile() -> Profile {
    Profile {
        name: "specimen".into(),
        description: "a drive so small that its image is looked through in no time".into(),
        capacity_bytes: u64::from(UNITS) * UNIT_BYTES as u64,
        over_provisioning_percent: 120.0,
        flash: FlashProfile {
            channels: 2,
            dies_per_channel: 1,
            planes_per_die: 1,
            pages_per_block: 8,
            page_bytes: 8192,
            read_ns: 50_000,
            program_ns: 500_000,
            erase_ns: 3_000_000,
            channel_bytes_per_second: 400_000_000,
            scheduling: FlashScheduling::default(),
            suspend_ns: None,
            suspensions: None,
            endurance_cycles: 3000,
            factory_bad_blocks: 0,
        },
        link: LinkProfile { bytes_per_second: 1_000_000_000, command_ns: 5_000 },
        cache: CacheProfile { mode: CacheMode::Volatile, bytes: 16 * UNIT_BYTES as u64 },
        nvm: None,
        firmware: FirmwareProfile::default(),
        spu: SpuProfile::default(),
        fdp: None,
        zones: None,
        power: PowerProfile { plp: Plp::None, dump_bytes: 0 },
        limits: LimitsProfile {
            atomic_units: 16,
            atomic_write_units: 1,
            open_transactions: 4,
            shared_owners: 8,
            index_dram_bytes: None,
        },
        ftl: FtlProfile {
            victim_policy: VictimPolicy::Greedy,
            wear_spread: 8,
            checkpoint_interval_pages: None,
        },
    }
}

/// A drive at work, with what it holds.
struct Worker {
    device: Device,
    stamps: Vec<u64>,
    now_ns: u64,
    next: u64,
}

impl Worker {
    fn submit(&mut self, command: Command<'_>) -> tantalum::Completion {
        let done = self.device.submit(command, self.now_ns).expect("the drive is whole");
        self.now_ns = self.now_ns.max(done.done_ns);
        done
    }

    fn unit(&mut self) -> (u64, Vec<u8>) {
        self.next += 1;
        (self.next, unit_of(self.next))
    }

    fn write(&mut self, lpn: u32) {
        let (stamp, data) = self.unit();
        self.submit(Command::Write { lpn: Lpn(lpn), data: &data, fua: false, handle: None });
        self.stamps[lpn as usize] = stamp;
    }

    /// Every kind of thing that leaves a trace on flash, a few times over.
    fn work(&mut self, rounds: u32) {
        for round in 0..rounds {
            (0..40).for_each(|index| self.write((round * 37 + index * 5) % 160));
            self.submit(Command::Trim { lpn: Lpn(round % 150), units: 3 });
            (round % 150..round % 150 + 3).for_each(|lpn| self.stamps[lpn as usize] = 0);
            self.share(160 + round % 20, round % 7 + 5);
            self.atomic();
            self.transaction();
            self.log();
            self.submit(Command::Flush);
        }
    }

    fn share(&mut self, dst: u32, src: u32) {
        if self.stamps[src as usize] > 0 {
            let ranges = [ShareRange { dst: Lpn(dst), src: Lpn(src), units: 1 }];
            self.submit(Command::Share { ranges: &ranges, deferred: true });
            self.stamps[dst as usize] = self.stamps[src as usize];
        }
    }

    fn atomic(&mut self) {
        let units: Vec<(u64, Vec<u8>)> = (0..6).map(|_| self.unit()).collect();
        let writes: Vec<(Lpn, &[u8])> =
            units.iter().zip(180_u32..).map(|((_, data), lpn)| (Lpn(lpn), &data[..])).collect();
        self.submit(Command::WriteAtomic { writes: &writes });
        units.iter().zip(180..).for_each(|((stamp, _), lpn)| self.stamps[lpn] = *stamp);
    }

    fn transaction(&mut self) {
        let mut tx = TxId::default();
        self.submit(Command::Begin { tx: &mut tx });
        for lpn in 186..190 {
            let (stamp, data) = self.unit();
            self.submit(Command::TxWrite { tx, lpn: Lpn(lpn), data: &data });
            self.stamps[lpn as usize] = stamp;
        }
        self.submit(Command::Commit { tx });
    }

    /// A generation of a log: one transaction of all its pages, half of which are shared home.
    fn log(&mut self) {
        let mut generation = Generation::default();
        self.submit(Command::BeginLog { generation: &mut generation });
        for (lpn, slot) in LOG.zip(1..) {
            let (stamp, data) = self.unit();
            let end = slot == LOG.len() as u32;
            let hint =
                Hint { generation, attempt: 0, start: 1, first: 1, slot, end, home: Some(Lpn(lpn - 32)) };
            let metadata = &[slot as u8; METADATA_BYTES];
            self.submit(Command::WriteHinted { lpn: Lpn(lpn), data: &data, metadata, hint });
            self.stamps[lpn as usize] = stamp;
        }
        self.submit(Command::Flush);
        for lpn in LOG.take(8) {
            let ranges = [ShareRange { dst: Lpn(lpn - 32), src: Lpn(lpn), units: 1 }];
            self.submit(Command::Share { ranges: &ranges, deferred: false });
        }
        // the homes of the other half are taken by the hints alone, when power comes on
        for lpn in LOG.start as usize..LOG.start as usize + 8 {
            self.stamps[lpn - 32] = self.stamps[lpn];
        }
    }
}

impl Specimen {
    /// Creates one in `folder`.
    pub fn new(folder: &Path, end: End) -> Specimen {
        let path = folder.join(format!("{end:?}.tantalum"));
        let device = Device::create(&path, &profile()).expect("the profile is possible");
        let mut worker = Worker { device, stamps: vec![0; UNITS as usize], now_ns: 0, next: 0 };
        worker.work(12);
        let mut older = std::fs::read(&path).expect("the image is there");
        worker.work(6);
        let Worker { device, mut stamps, now_ns, .. } = worker;
        let killed = std::fs::read(&path).expect("the image is there");
        device.shutdown(now_ns).expect("the drive is whole");
        let image = match end {
            End::ShutDown => std::fs::read(&path).expect("the image is there"),
            End::Killed => killed,
        };
        older.resize(image.len(), 0);
        // what the process did after it was killed never happened
        std::fs::write(&path, &image).expect("the image can be written");
        let file = File::options().write(true).open(&path).expect("the image is there");
        // homes in the whole run are taken by their hints: power comes on, and they are there
        let mut specimen = Specimen { path, file, image, older, stamps: Vec::new() };
        for (lpn, found) in specimen.read_all().into_iter().enumerate() {
            let found = found.expect("the image is whole");
            let home = LOG.contains(&(lpn as u32 + 32)).then(|| stamps[lpn + 32]);
            assert!(found == stamps[lpn] || Some(found) == home, "unit {lpn}: {found}, not {}", stamps[lpn]);
            stamps[lpn] = found;
        }
        specimen.stamps = stamps;
        specimen
    }

    /// Bytes of the image.
    pub fn bytes(&self) -> u64 {
        self.image.len() as u64
    }

    /// Whether something is stored in these 64 bytes, or was in the older copy.
    pub fn is_used(&self, at: u64) -> bool {
        let used = |image: &[u8]| image[at as usize..].iter().take(64).any(|byte| *byte != 0);
        used(&self.image) || used(&self.older)
    }

    /// Where the page records are, and the bytes of each (docs/image-format.md).
    pub fn page_records(&self) -> (std::ops::Range<u64>, u64) {
        let geometry = profile().geometry().expect("the profile is possible");
        let start = (69632 + u64::from(geometry.blocks()) * 32).next_multiple_of(4096);
        (start..start + u64::from(geometry.pages()) * 512, 512)
    }

    /// Where the units' data start: all before are the image's own records.
    pub fn records_end(&self) -> u64 {
        self.page_records().0.end.next_multiple_of(4096)
    }

    /// Whether a piece differs from the older copy.
    pub fn differs_from_older(&self, at: u64, bytes: u64) -> bool {
        let piece = at as usize..(at + bytes) as usize;
        self.image[piece.clone()] != self.older[piece]
    }

    /// Applies a mutation to a copy and repairs it; `None` if it is no longer an image. What can then be read is right.
    pub fn repair(&self, folder: &Path, mutation: &Mutation) -> Option<Repair> {
        let path = folder.join("repaired.tantalum");
        let mut image = self.image.clone();
        match *mutation {
            Mutation::Flip { at, bit } => image[at as usize] ^= 1 << bit,
            Mutation::Truncate { bytes } => image.truncate(bytes as usize),
            Mutation::Splice { at, bytes } => {
                let piece = at as usize..(at + bytes) as usize;
                image[piece.clone()].copy_from_slice(&self.older[piece]);
            }
        }
        std::fs::write(&path, image).expect("the image can be written");
        let repair = repair(&path, &mut |_, _| ControlFlow::Continue(())).ok()?;
        match Device::open(&path) {
            Ok(device) => drop(self.compare(device)),
            Err(error) => assert!(repair.before.is_beyond_repair(), "not opened after a repair: {error}"),
        }
        Some(repair)
    }

    /// Applies the mutations, opens the image, reads every unit, checks the image, and restores it.
    pub fn try_out(&self, mutations: &[Mutation]) -> Verdict {
        mutations.iter().for_each(|mutation| self.apply(mutation));
        let verdict = self.open();
        self.compare_with_check(verdict);
        self.file.set_len(self.bytes()).expect("the image can be written");
        for mutation in mutations {
            let (at, bytes) = match *mutation {
                Mutation::Flip { at, .. } => (at, 1),
                Mutation::Truncate { bytes } => (bytes, self.bytes() - bytes),
                Mutation::Splice { at, bytes } => (at, bytes),
            };
            self.write(&self.image[at as usize..(at + bytes) as usize], at);
        }
        verdict
    }

    fn write(&self, bytes: &[u8], at: u64) {
        self.file.write_all_at(bytes, at).expect("the image can be written");
    }

    fn apply(&self, mutation: &Mutation) {
        match *mutation {
            Mutation::Flip { at, bit } => self.write(&[self.image[at as usize] ^ (1 << bit)], at),
            Mutation::Truncate { bytes } => self.file.set_len(bytes).expect("the image can be written"),
            Mutation::Splice { at, bytes } => {
                let piece = &self.older[at as usize..(at + bytes) as usize];
                self.write(piece, at);
            }
        }
    }

    fn read_all(&self) -> Vec<Option<u64>> {
        let device = Device::open_as(&self.path, Access::Overlay).expect("the image is whole");
        read_all(device)
    }

    fn open(&self) -> Verdict {
        let device = match Device::open_as(&self.path, Access::Overlay) {
            Ok(device) => device,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return Verdict::Refused;
            }
        };
        device.audit();
        self.compare(device)
    }

    fn compare(&self, device: Device) -> Verdict {
        let mut unreadable = 0;
        for (lpn, found) in read_all(device).into_iter().enumerate() {
            match found {
                None => unreadable += 1,
                Some(stamp) => assert_eq!(stamp, self.stamps[lpn], "unit {lpn} is silently wrong"),
            }
        }
        if unreadable == 0 { Verdict::Right } else { Verdict::Unreadable(unreadable) }
    }

    /// The check agrees: what is not opened, or has unreadable units, has an error or a finding.
    fn compare_with_check(&self, verdict: Verdict) {
        match (self.check(), verdict) {
            (Ok(check), Verdict::Right) => assert_eq!(check.findings, [], "the drive is right"),
            (Ok(check), _) => assert_ne!(check.findings, [], "the check says nothing about {verdict:?}"),
            (Err(_), verdict) => assert_eq!(verdict, Verdict::Refused),
        }
    }

    /// Checks the image as it is.
    pub fn check(&self) -> Result<Check, DeviceError> {
        check(&self.path, &mut |_, _| ControlFlow::Continue(()))
    }
}

/// What every unit holds; `None` if it cannot be read.
fn read_all(mut device: Device) -> Vec<Option<u64>> {
    let mut unit = vec![0; UNIT_BYTES];
    (0..UNITS)
        .map(|lpn| match device.submit(Command::Read { lpn: Lpn(lpn), data: &mut unit }, 0) {
            Ok(_) => Some(stamp_of(&unit)),
            Err(Status::Unreadable { .. }) => None,
            Err(error) => panic!("unit {lpn}: {error}"),
        })
        .collect()
}

fn unit_of(stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(UNIT_BYTES / 8)
}

fn stamp_of(unit: &[u8]) -> u64 {
    let stamp = u64::from_le_bytes(unit[..8].try_into().expect("a unit is longer"));
    assert!(unit.chunks(8).all(|word| word == stamp.to_le_bytes()), "a unit is torn");
    stamp
}
