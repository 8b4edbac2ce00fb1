//! Measures what is written below the stores: by this process to a disk, or to a Tantalum drive mounted there.

use std::path::Path;

use tantalum_control::Control;
use tantalum_fuse::image_mounted_on;
use tantalum_fuse::report::Report;

use crate::engines::Failure;

/// Bytes of the drive's smallest write.
const UNIT_BYTES: u64 = 4096;

/// Reads the counters of what lies below a folder.
pub enum Meter {
    /// The system's counters of this process.
    Disk,
    /// The counters of the Tantalum drive mounted there.
    Drive(Box<Control>),
}

/// Bytes written since something began.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Sent to the disk or drive.
    pub sent: u64,
    /// Programmed into its flash, for whatever reason; `None` if the disk does not report it.
    pub programmed: Option<u64>,
}

impl Meter {
    /// The meter for a folder, which may lie in a mounted Tantalum volume.
    pub fn for_folder(folder: &Path) -> Result<Meter, Failure> {
        let folder = folder.canonicalize()?;
        match folder.ancestors().find_map(image_mounted_on) {
            Some(image) => Ok(Meter::Drive(Box::new(Control::connect(&image)?))),
            None => Ok(Meter::Disk),
        }
    }

    /// Whether a drive's flash is below.
    pub fn is_drive(&self) -> bool {
        matches!(self, Meter::Drive(_))
    }

    /// Everything written so far.
    pub fn read(&mut self) -> Result<Written, Failure> {
        match self {
            Meter::Disk => Ok(Written { sent: sent_by_this_process()?, programmed: None }),
            Meter::Drive(control) => {
                let report: Report = control.stat()?;
                let counters = &report.drive.smart.counters;
                let (sent, programmed) = (counters.host_units_written, counters.flash_units.total());
                Ok(Written { sent: sent * UNIT_BYTES, programmed: Some(programmed * UNIT_BYTES) })
            }
        }
    }

    /// What was written since an earlier reading.
    pub fn since(&mut self, before: Written) -> Result<Written, Failure> {
        let now = self.read()?;
        let programmed = now.programmed.zip(before.programmed).map(|(now, before)| now - before);
        Ok(Written { sent: now.sent - before.sent, programmed })
    }
}

/// Bytes that this process has sent to the disk.
pub fn sent_by_this_process() -> Result<u64, Failure> {
    let text = std::fs::read_to_string("/proc/self/io")?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(line.ok_or("/proc/self/io says nothing of write_bytes")?.parse()?)
}
