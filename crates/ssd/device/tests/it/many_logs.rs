//! More hinted logs than a drive keeps open.

use tantalum::{
    Command, Completion, Device, Generation, Hint, Lpn, Outcome, PowerLoss, Profile, ShareRange, Status,
    UNIT_BYTES, result_of,
};

/// Logs that a drive keeps open.
const OPEN: u32 = 256;

struct Host {
    device: Device,
    now_ns: u64,
}

impl Host {
    fn new() -> Host {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
        Host { device: Device::in_memory(&profile).unwrap(), now_ns: 0 }
    }

    fn submit(&mut self, command: Command<'_>) -> Result<Completion, Status> {
        let done = self.device.submit(command, self.now_ns)?;
        self.now_ns = done.done_ns;
        Ok(done)
    }

    fn begin(&mut self) -> Result<Generation, Status> {
        result_of(|generation| self.submit(Command::BeginLog { generation }))
    }

    /// A log's page, which is a transaction by itself. Log `log` has its own slots, and a home for each.
    fn append(&mut self, generation: Generation, log: u32, slot: u32) -> Result<Completion, Status> {
        let hint = Hint {
            generation,
            attempt: 0,
            start: 1,
            first: slot,
            slot,
            end: true,
            home: Some(home(log, slot)),
        };
        let data = [(log + slot) as u8; UNIT_BYTES];
        self.submit(Command::WriteHinted { lpn: page(log, slot), data: &data, metadata: &[0; 24], hint })
    }

    fn bring_home(&mut self, log: u32, slot: u32) {
        let ranges = [ShareRange { dst: home(log, slot), src: page(log, slot), units: 1 }];
        self.submit(Command::Share { ranges: &ranges, deferred: false }).unwrap();
    }

    fn read(&mut self, lpn: Lpn) -> u8 {
        let mut data = [0; UNIT_BYTES];
        self.submit(Command::Read { lpn, data: &mut data }).unwrap();
        data[0]
    }
}

fn page(log: u32, slot: u32) -> Lpn {
    Lpn(1000 + log * 4 + slot)
}

fn home(log: u32, slot: u32) -> Lpn {
    Lpn(5000 + log * 4 + slot)
}

/// The least recently used log is dropped, and only once all its pages are home; what it brought home stays there
/// across a power cut, as does what the remaining logs bring home.
#[test]
fn the_log_used_longest_ago_is_forgotten() {
    let mut host = Host::new();
    let logs: Vec<Generation> = (0..OPEN).map(|_| host.begin().unwrap()).collect();
    for log in 0..OPEN {
        host.append(logs[log as usize], log, 1).unwrap();
        host.bring_home(log, 1);
    }
    host.append(logs[0], 0, 2).unwrap();
    let one_more = host.begin().unwrap();
    assert_eq!(host.append(logs[1], 1, 2).err(), Some(Status::UnknownLog(logs[1])));
    for (generation, log, slot) in [(logs[0], 0, 3), (logs[2], 2, 2), (one_more, OPEN, 1)] {
        host.append(generation, log, slot).unwrap();
        host.bring_home(log, slot);
    }
    // the pages that prove it are overwritten
    for log in 0..=OPEN {
        for slot in 1..=3 {
            host.submit(Command::Write {
                lpn: page(log, slot),
                data: &[0xff; UNIT_BYTES],
                fua: false,
                handle: None,
            })
            .unwrap();
        }
    }
    host.submit(Command::Flush).unwrap();
    host.device.cut_power(host.now_ns);
    host.device.power_on(&mut PowerLoss::all(Outcome::NotStarted)).unwrap();
    for (log, slot) in (0..OPEN).map(|log| (log, 1)).chain([(0, 3), (2, 2), (OPEN, 1)]) {
        assert_eq!(host.read(home(log, slot)), (log + slot) as u8, "log {log}, slot {slot}");
    }
}

#[test]
fn logs_with_pages_to_bring_home_are_not_forgotten() {
    let mut host = Host::new();
    for log in 0..OPEN {
        let generation = host.begin().unwrap();
        host.append(generation, log, 1).unwrap();
    }
    let refused = host.begin().unwrap_err();
    assert!(matches!(refused, Status::OverLimit { limit: 256, .. }), "{refused}");
    host.bring_home(7, 1);
    let generation = host.begin().unwrap();
    host.append(generation, 7, 1).unwrap();
    host.begin().unwrap_err();
}
