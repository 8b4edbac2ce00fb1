//! A drive whose reads and writes go through Base-IO, as the thesis has it (section 5.1.2): for a file system on it, such as
//! the volume below the SQLite VFS.
//!
//! Base-IO reads, writes and flushes. All other commands (shares, atomic batches, trims and so on) are the drive's own, and go
//! to it beside the program; both see the same units.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tantalum::{Command, Completion, Nanoseconds, Status, UNIT_BYTES};
use tantalum_drive::{Issued, Way};

use crate::answer;
use crate::block_client::{BlockClient, IoError};
use crate::error::SpuError;
use crate::system::Ssd;

/// Reads, writes and flushes of a client of the drive, by way of Base-IO. Each is done when it returns: a client that has several
/// commands under way has them one after the other.
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
/// let mut client = drive.client().by_way_of(way);
/// client.submit(Command::Write { lpn: Lpn(3), data: &[7; UNIT_BYTES], fua: true })?;
/// assert!(ssd.lock().unwrap().requests_handled() >= 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct BaseIoWay {
    ssd: Arc<Mutex<Ssd>>,
    base_io: BlockClient,
}

impl BaseIoWay {
    /// The way through Base-IO, which is installed, and used by this client of the kernel.
    pub fn new(ssd: Arc<Mutex<Ssd>>, base_io: BlockClient) -> BaseIoWay {
        BaseIoWay { ssd, base_io }
    }
}

impl fmt::Debug for BaseIoWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BaseIoWay").field("base_io", &self.base_io).finish_non_exhaustive()
    }
}

impl Way for BaseIoWay {
    fn issue<'a>(&mut self, mut command: Command<'a>, at_ns: Nanoseconds) -> Issued<'a> {
        if !matches!(command, Command::Read { .. } | Command::Write { .. } | Command::Flush) {
            return Issued::Back(command);
        }
        let mut ssd = self.ssd.lock().unwrap_or_else(PoisonError::into_inner);
        ssd.wait_until(at_ns);
        match self.do_it(&mut ssd, &mut command) {
            Ok(()) => Issued::Done(Ok(Completion { done_ns: ssd.now_ns(), ..Completion::default() })),
            Err(IoError::Sending(SpuError::PowerLost)) => Issued::Done(Err(Status::PowerLost)),
            // the drive says why itself: a read changed nothing, and a write is the same again
            Err(IoError::Refused { status: answer::DRIVE, .. }) => Issued::Back(command),
            Err(error) => Issued::Done(Err(Status::InvalidField(format!("Base-IO: {error}")))),
        }
    }
}

impl BaseIoWay {
    fn do_it(&self, ssd: &mut Ssd, command: &mut Command<'_>) -> Result<(), IoError> {
        let address = |unit: u32| u64::from(unit) * UNIT_BYTES as u64;
        match command {
            Command::Read { lpn, data } => self.base_io.read(ssd, address(lpn.0), data),
            Command::Write { lpn, data, fua } => {
                self.base_io.write(ssd, address(lpn.0), data)?;
                if *fua { self.base_io.flush(ssd) } else { Ok(()) }
            }
            _ => self.base_io.flush(ssd),
        }
    }
}
