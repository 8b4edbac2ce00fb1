//! Reads and writes through Base-IO (thesis, section 5.1.2), for a file system on the drive, such as the volume below the SQLite
//! VFS.
//!
//! Base-IO reads, writes and flushes. All other commands (shares, atomic batches, trims and so on) bypass the program and go to
//! the drive itself; both see the same units.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tantalum::{Command, Completion, Nanoseconds, Status, UNIT_BYTES};
use tantalum_drive::{CommandRoute, Issued};

use crate::answer;
use crate::block_client::{BlockClient, IoError};
use crate::error::SpuError;
use crate::system::Ssd;

/// Sends reads, writes and flushes of a client of the drive through Base-IO. Each is complete when it returns, so several
/// commands in flight are executed one after the other.
///
/// # Example
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use tantalum::{Command, Device, Lpn, Profile, UNIT_BYTES};
/// use tantalum_drive::Drive;
/// use tantalum_spu::{BaseIoWay, BlockClient, InstallOptions, ProcessId, Ssd, shipped};
///
/// let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme")? };
/// let drive = Drive::new(Device::in_memory(&profile)?);
/// let mut ssd = Ssd::new(drive.clone());
/// let endpoint = ssd.endpoint(ProcessId::KERNEL)?;
/// let base_io = ssd.install(ProcessId::KERNEL, shipped::BASE_IO, InstallOptions::default())?;
/// let ssd = Arc::new(Mutex::new(ssd));
/// let way = BaseIoWay::new(Arc::clone(&ssd), BlockClient::new(endpoint, base_io));
///
/// // Any client of the drive, and whatever is built on one.
/// let mut client = drive.client().with_route(way);
/// client.submit(Command::Write { lpn: Lpn(3), data: &[7; UNIT_BYTES], fua: true, handle: None })?;
/// assert!(ssd.lock().unwrap().requests_handled() >= 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct BaseIoWay {
    ssd: Arc<Mutex<Ssd>>,
    base_io: BlockClient,
}

impl BaseIoWay {
    /// A way through Base-IO, which must be installed; `base_io` is a client with an endpoint of the kernel.
    pub fn new(ssd: Arc<Mutex<Ssd>>, base_io: BlockClient) -> BaseIoWay {
        BaseIoWay { ssd, base_io }
    }
}

impl fmt::Debug for BaseIoWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BaseIoWay").field("base_io", &self.base_io).finish_non_exhaustive()
    }
}

impl CommandRoute for BaseIoWay {
    fn issue<'a>(&mut self, mut command: Command<'a>, at_ns: Nanoseconds) -> Issued<'a> {
        if !matches!(command, Command::Read { .. } | Command::Write { .. } | Command::Flush) {
            return Issued::Declined(command);
        }
        let mut ssd = self.ssd.lock().unwrap_or_else(PoisonError::into_inner);
        ssd.wait_until(at_ns);
        match self.do_it(&mut ssd, &mut command) {
            Ok(()) => Issued::Done(Ok(Completion { done_ns: ssd.now_ns() })),
            Err(IoError::Sending(SpuError::PowerLost)) => Issued::Done(Err(Status::PowerLost)),
            // repeated without the program, the command gets the drive's own error: reads change nothing, and writes are idempotent
            Err(IoError::Refused { status: answer::DRIVE, .. }) => Issued::Declined(command),
            Err(error) => Issued::Done(Err(Status::InvalidField(format!("Base-IO: {error}")))),
        }
    }
}

impl BaseIoWay {
    fn do_it(&self, ssd: &mut Ssd, command: &mut Command<'_>) -> Result<(), IoError> {
        let address = |unit: u32| u64::from(unit) * UNIT_BYTES as u64;
        match command {
            Command::Read { lpn, data } => self.base_io.read(ssd, address(lpn.0), data),
            Command::Write { lpn, data, fua, .. } => {
                self.base_io.write(ssd, address(lpn.0), data)?;
                if *fua { self.base_io.flush(ssd) } else { Ok(()) }
            }
            _ => self.base_io.flush(ssd),
        }
    }
}
