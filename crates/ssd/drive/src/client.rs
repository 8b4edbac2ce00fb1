//! A client that waits for its commands, with its clock: the drive as a file system sees it.

use tantalum::{
    Command, Completion, Device, Generation, NamespaceAttributes, NamespaceId, Nanoseconds, Status, TxId,
    result_of,
};

use crate::clock::Clock;
use crate::drive::Drive;
use crate::guard::DeviceGuard;
use crate::route::{CommandRoute, Issued};

/// One of a drive's clients, or the only one: the block device below a file system or a store. Its clock never goes back,
/// and once a command has shown that the drive has ended ([`tantalum::Device::ended`]), it issues only reads, or nothing
/// without power.
///
/// It issues every [`Command`], in virtual time or the machine's. [`Client::submit`] waits until the command is done.
/// [`Client::submit_queued`] does not, so that several can be in flight; follow it with [`Client::wait_until`]. What the
/// drive takes in one step is in [`tantalum::Device::limits`].
///
/// | to | use |
/// |---|---|
/// | read, write | `Read`, `Write`; with 24 bytes of metadata for a unit, `ReadWithMetadata`, `WriteWithMetadata` |
/// | keep a log whose pages the drive brings home | [`Client::begin_log`], `WriteHinted` |
/// | make completed commands durable | `Flush`, or `fua` with a write |
/// | write scattered units, all or nothing | `WriteAtomic`; over several commands, [`Client::begin`], `TxWrite`, `Commit` |
/// | move data without writing them | `Share`, `Remap` |
/// | give up units | `Trim`, `WriteZeroes` |
/// | move bytes while others have the drive | `ReadLater` with [`tantalum::Device::fetches`], `WriteFilled` with [`tantalum::Device::fills`] |
///
/// # Example
///
/// ```
/// use tantalum::{Command, Device, Hint, Lpn, Profile, ShareRange, Status, UNIT_BYTES};
/// use tantalum_drive::Drive;
///
/// let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme")? };
/// let mut client = Drive::new(Device::in_memory(&profile)?).client();
///
/// // Two writes under way together, durable with the flush.
/// let (old, new) = (vec![1; UNIT_BYTES], vec![2; UNIT_BYTES]);
/// let first = client.submit_queued(Command::Write { lpn: Lpn(0), data: &old, fua: false, handle: None })?;
/// let second = client.submit_queued(Command::Write { lpn: Lpn(9), data: &new, fua: false, handle: None })?;
/// client.wait_until(first.done_ns.max(second.done_ns));
/// client.submit(Command::Flush)?;
///
/// // Unit 0 takes over what unit 9 holds, and then unit 9 is given up: nothing is written twice.
/// let ranges = [ShareRange { dst: Lpn(0), src: Lpn(9), units: 1 }];
/// client.submit(Command::Share { ranges: &ranges, deferred: false })?;
/// client.submit(Command::Trim { lpn: Lpn(9), units: 1 })?;
///
/// // A page moves; two units change together.
/// client.submit(Command::Remap { src: Lpn(0), dst: Lpn(5), units: 1 })?;
/// client.submit(Command::WriteAtomic { writes: &[(Lpn(5), &old[..]), (Lpn(6), &new[..])] })?;
///
/// // A page of a log whose home is unit 7.
/// let generation = client.begin_log()?;
/// let hint = Hint { generation, attempt: 0, start: 1, first: 1, slot: 1, end: true, home: Some(Lpn(7)) };
/// client.submit(Command::WriteHinted { lpn: Lpn(20), data: &new, metadata: &[0; 24], hint })?;
///
/// // The drive loses power: the client learns of it, and keeps reporting it.
/// let now_ns = client.now_ns();
/// client.device().cut_power(now_ns);
/// let mut data = vec![0; UNIT_BYTES];
/// assert_eq!(client.submit(Command::Read { lpn: Lpn(5), data: &mut data }), Err(Status::PowerLost));
/// assert_eq!(client.end(), Some(Status::PowerLost));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Client {
    drive: Drive,
    clock: Clock,
    end: Option<Status>,
    way: Option<Box<dyn CommandRoute>>,
}

impl Drive {
    /// A client in virtual time, which starts when everything submitted to the drive so far is done.
    pub fn client(&self) -> Client {
        let clock = Clock::virtual_from(self.lock().time_ns());
        Client { drive: self.clone(), clock, end: None, way: None }
    }
}

impl Client {
    /// The client of a copy of the drive, at the same time. `None` if the drive, or a way to it, cannot be copied.
    pub fn try_clone(&self) -> Option<Client> {
        if self.way.is_some() {
            return None;
        }
        Some(Client { drive: self.drive.try_clone()?, clock: self.clock, end: self.end.clone(), way: None })
    }

    /// The same client, whose commands from now on go another way, if that way takes them.
    pub fn with_route(self, way: impl CommandRoute + 'static) -> Client {
        Client { way: Some(Box::new(way)), ..self }
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// The device itself; see [`Drive::lock`].
    pub fn device(&self) -> DeviceGuard<'_> {
        self.drive.lock()
    }

    /// Gives up the drive: returns the device if nobody else has the drive, and the client otherwise.
    pub fn into_device(self) -> Result<Device, Box<Client>> {
        let Client { drive, clock, end, way } = self;
        drive.into_device().map_err(|drive| Box::new(Client { drive, clock, end, way }))
    }

    /// The client's time.
    pub fn now_ns(&self) -> Nanoseconds {
        self.clock.now_ns()
    }

    /// The client waits until `ns`, unless that has passed.
    pub fn wait_until(&mut self, ns: Nanoseconds) {
        self.clock.wait_until(ns);
    }

    /// From now on the client lives in the machine's time, and sees the drive's latencies.
    pub fn run_in_real_time(&mut self) {
        let now_ns = self.device().time_ns();
        self.clock = Clock::real_from(now_ns);
    }

    /// The client continues in virtual time at `now_ns`. That may be before its last wait ended, if it stands for
    /// several clients, but not before the drive's last command.
    pub fn begin_at(&mut self, now_ns: Nanoseconds) {
        let issued_ns = self.device().issued_ns();
        self.clock = Clock::virtual_from(now_ns.max(issued_ns));
    }

    /// Fails with the error that ended the drive, if a command of this client has met it: nothing can be changed.
    pub fn check(&self) -> Result<(), Status> {
        self.end.clone().map_or(Ok(()), Err)
    }

    /// Fails if a command of this client has found no power: nothing can be read.
    pub fn check_power(&self) -> Result<(), Status> {
        match &self.end {
            Some(Status::PowerLost) => Err(Status::PowerLost),
            _ => Ok(()),
        }
    }

    /// What ended the drive, if anything did: see [`tantalum::Device::ended`].
    pub fn end(&self) -> Option<Status> {
        self.end.clone().or_else(|| self.device().ended())
    }

    /// Issues a command now, without waiting for it.
    pub fn submit_queued(&mut self, command: Command<'_>) -> Result<Completion, Status> {
        self.check_command(&command)?;
        match self.go(command) {
            Issued::Done(result) => result,
            Issued::Declined(command) => self.submit_with(|device, at_ns| device.issue(command, at_ns)),
        }
    }

    /// As [`Client::submit_queued`], for a write that becomes a share where it repeats a recent one; see
    /// [`DeviceGuard::issue_or_share`].
    pub fn submit_or_share(&mut self, command: Command<'_>) -> Result<Completion, Status> {
        self.check_command(&command)?;
        match self.go(command) {
            Issued::Done(result) => result,
            Issued::Declined(command) => {
                self.submit_with(|device, at_ns| device.issue_or_share(command, at_ns))
            }
        }
    }

    /// Without power nothing is issued, and once the drive has ended, nothing but reads.
    fn check_command(&self, command: &Command<'_>) -> Result<(), Status> {
        match command.reads() {
            true => self.check_power(),
            false => self.check(),
        }
    }

    /// A command takes its own way, if there is one for it.
    fn go<'a>(&mut self, command: Command<'a>) -> Issued<'a> {
        let Some(way) = &mut self.way else { return Issued::Declined(command) };
        let issued = way.issue(command, self.clock.now_ns());
        if let Issued::Done(Err(status)) = &issued {
            let ended = self.device().ended();
            self.note_end(status, ended);
        }
        issued
    }

    fn note_end(&mut self, status: &Status, ended: Option<Status>) {
        if self.end.is_none() {
            // power may have come back since
            self.end = if *status == Status::PowerLost { Some(Status::PowerLost) } else { ended };
        }
    }

    fn submit_with(
        &mut self,
        issue: impl FnOnce(&mut DeviceGuard<'_>, Nanoseconds) -> Result<Completion, Status>,
    ) -> Result<Completion, Status> {
        let at_ns = self.clock.now_ns();
        let mut device = self.drive.lock();
        let issued = issue(&mut device, at_ns);
        debug_assert!(
            issued.is_err() || device.issued_ns() >= at_ns,
            "the drive's last command is of {} ns, before the client's time of {at_ns} ns",
            device.issued_ns()
        );
        let ended = issued.as_ref().err().and_then(|_| device.ended());
        drop(device);
        issued.inspect_err(|status| self.note_end(status, ended))
    }

    /// Issues a command now and waits for it.
    pub fn submit(&mut self, command: Command<'_>) -> Result<Completion, Status> {
        let completion = self.submit_queued(command)?;
        self.wait_until(completion.done_ns);
        Ok(completion)
    }

    /// Opens a transaction: [`Command::Begin`].
    pub fn begin(&mut self) -> Result<TxId, Status> {
        result_of(|tx| self.submit(Command::Begin { tx }))
    }

    /// Starts a life of a hinted log: [`Command::BeginLog`].
    pub fn begin_log(&mut self) -> Result<Generation, Status> {
        result_of(|generation| self.submit(Command::BeginLog { generation }))
    }

    /// Creates a key-value namespace: [`Command::CreateNamespace`].
    pub fn create_namespace(&mut self, attributes: NamespaceAttributes) -> Result<NamespaceId, Status> {
        result_of(|namespace| self.submit(Command::CreateNamespace { attributes, namespace }))
    }
}

impl From<Device> for Client {
    /// The only client of a drive.
    fn from(device: Device) -> Client {
        Drive::new(device).client()
    }
}
