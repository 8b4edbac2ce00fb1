//! A drive with its client's clock: the client waits for each command.

use tantalum::{
    Command, Completion, Device, Generation, Hint, Key, KvRecord, Lpn, NamespaceAttributes, NamespaceId,
    Outcome, PowerLoss, Profile, ShareRange, Status, UNIT_BYTES, result_of,
};

pub struct Host {
    pub device: Device,
    pub now_ns: u64,
}

#[allow(dead_code, reason = "each test file uses some of it")]
impl Host {
    pub fn new(profile: &Profile) -> Host {
        Host { device: Device::in_memory(profile).unwrap(), now_ns: 0 }
    }

    /// A copy of the drive, and of its clock.
    pub fn fork(&self) -> Host {
        Host { device: self.device.try_clone().unwrap(), now_ns: self.now_ns }
    }

    /// Issues a command, and waits until it is done.
    pub fn submit(&mut self, command: Command<'_>) -> Result<Completion, Status> {
        let done = self.device.submit(command, self.now_ns)?;
        self.now_ns = done.done_ns;
        Ok(done)
    }

    pub fn write(&mut self, lpn: u32, byte: u8) {
        self.submit(Command::Write { lpn: Lpn(lpn), data: &[byte; UNIT_BYTES], fua: false, handle: None })
            .unwrap();
    }

    pub fn write_through(&mut self, lpn: u32, byte: u8) {
        self.submit(Command::Write { lpn: Lpn(lpn), data: &[byte; UNIT_BYTES], fua: true, handle: None })
            .unwrap();
    }

    pub fn trim(&mut self, lpn: u32) {
        self.submit(Command::Trim { lpn: Lpn(lpn), units: 1 }).unwrap();
    }

    pub fn share(&mut self, dst: u32, src: u32) {
        let ranges = [ShareRange { dst: Lpn(dst), src: Lpn(src), units: 1 }];
        self.submit(Command::Share { ranges: &ranges, deferred: false }).unwrap();
    }

    pub fn flush(&mut self) {
        self.submit(Command::Flush).unwrap();
    }

    pub fn begin_log(&mut self) -> Generation {
        result_of(|generation| self.submit(Command::BeginLog { generation })).unwrap()
    }

    /// A page of a log's first attempt. Its transaction begins at `first`.
    pub fn write_page(&mut self, lpn: u32, byte: u8, hint: Hint) -> Result<Completion, Status> {
        let data = [byte; UNIT_BYTES];
        self.submit(Command::WriteHinted { lpn: Lpn(lpn), data: &data, metadata: &[0; 24], hint })
    }

    pub fn create_namespace(&mut self) -> NamespaceId {
        let attributes = NamespaceAttributes::default();
        result_of(|namespace| self.submit(Command::CreateNamespace { attributes, namespace })).unwrap()
    }

    /// Puts a record whose value has this many bytes under the key of a number.
    pub fn put(&mut self, namespace: NamespaceId, number: u32, bytes: usize) -> Result<(), Status> {
        let (key, value) = (Key::new(&number.to_le_bytes()).unwrap(), vec![5; bytes]);
        let records = [KvRecord { namespace, key, value: Some(&value) }];
        self.submit(Command::KvPut { records: &records }).map(drop)
    }

    /// Power fails and comes back. Nothing that was in flight is done.
    pub fn cut(&mut self) {
        self.device.cut_power(self.now_ns);
        self.device.power_on(&mut PowerLoss::all(Outcome::NotStarted)).unwrap();
        self.device.audit();
        self.now_ns = self.device.time_ns();
    }

    pub fn read(&mut self, lpn: u32) -> u8 {
        let mut data = [0xEE; UNIT_BYTES];
        self.submit(Command::Read { lpn: Lpn(lpn), data: &mut data }).unwrap();
        assert!(data.iter().all(|byte| *byte == data[0]), "unit {lpn} is torn");
        data[0]
    }

    /// Reads one byte of each unit.
    pub fn read_all<const N: usize>(&mut self, lpns: [u32; N]) -> [u8; N] {
        lpns.map(|lpn| self.read(lpn))
    }
}

/// The hint of a page whose transaction is that page alone.
#[allow(dead_code, reason = "each test file uses some of it")]
pub fn hint(generation: Generation, slot: u32, home: u32) -> Hint {
    Hint { generation, attempt: 0, start: 1, first: slot, slot, end: true, home: Some(Lpn(home)) }
}
