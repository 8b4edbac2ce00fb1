//! What a self-test of a drive in use checks, in pieces, so that hosts have the drive in between: the maps among each other, and mapped
//! units with what is on flash. It is what [`crate::check`] does with an image that nobody uses.

use std::ops::Range;

use tantalum_ftl::{Audit, Finding, Lpn};

use crate::controller::Device;
use crate::status::Status;

/// Something wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SelfTestFinding {
    /// The unit, if it is that of one.
    pub lpn: Option<Lpn>,
    /// What is wrong.
    pub detail: String,
}

impl Device {
    /// Compares the maps among each other. Takes none of the drive's time. Returns the first finding.
    ///
    /// # Errors
    /// [`Status::PowerLost`] without power.
    pub fn test_maps(&self) -> Result<Option<SelfTestFinding>, Status> {
        let ftl = self.ftl().ok_or(Status::PowerLost)?;
        Ok(first_of(&ftl.audit_maps()))
    }

    /// The units that were ever mapped, as ranges in order; none without power.
    pub fn touched_units(&self) -> Vec<Range<u32>> {
        self.ftl().map_or_else(Vec::new, |ftl| ftl.map().touched().collect())
    }

    /// Reads the mapped units among these, with their spare areas, and compares them with the maps. The reads take the drive's time
    /// from now on, as garbage collection's do. Returns the first finding.
    ///
    /// # Errors
    /// [`Status::PowerLost`], and the host's if it cannot read the image.
    pub fn test_units(&mut self, lpns: Range<u32>) -> Result<Option<SelfTestFinding>, Status> {
        let at_ns = self.issued_ns.max(self.ready_ns);
        if !self.has_power() {
            return Err(Status::PowerLost);
        }
        let mut audit = Audit::default();
        self.engine_mut()?.ftl.audit_units(lpns, at_ns, &mut audit)?;
        Ok(first_of(&audit))
    }
}

fn first_of(audit: &Audit) -> Option<SelfTestFinding> {
    audit.findings().next().map(|finding| SelfTestFinding {
        lpn: match finding {
            Finding::Erased { lpn, .. } | Finding::Unreadable { lpn, .. } | Finding::Spare { lpn, .. } => {
                Some(*lpn)
            }
            _ => None,
        },
        detail: finding.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{Faults, UNIT_BYTES};

    use super::*;
    use crate::command::Command;
    use crate::profile::Profile;

    #[test]
    fn a_unit_that_cannot_be_read_is_found_in_its_range() {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
        let mut device = Device::in_memory(&profile).unwrap();
        for lpn in (0..500).map(Lpn) {
            let at_ns = device.time_ns();
            let data = [lpn.0 as u8; UNIT_BYTES];
            device.submit(Command::Write { lpn, data: &data, fua: false, handle: None }, at_ns).unwrap();
        }
        let at_ns = device.time_ns();
        device.submit(Command::Flush, at_ns).unwrap();
        let touched = device.touched_units();
        assert!(touched.iter().any(|range| range.contains(&499)), "{touched:?}");
        assert_eq!(device.test_maps(), Ok(None));
        assert_eq!(device.test_units(0..16384), Ok(None));
        device.set_faults(Faults { read_failure_ppm: 1_000_000, ..Faults::default() }).unwrap();
        let at_ns = device.time_ns();
        let read = device.submit(Command::Read { lpn: Lpn(77), data: &mut [0; UNIT_BYTES] }, at_ns);
        assert_eq!(read, Err(Status::Unreadable { lpn: Lpn(77) }));
        device.set_faults(Faults::default()).unwrap();
        let found = device.test_units(77..78).unwrap().expect("its page is uncorrectable");
        assert_eq!(found.lpn, Some(Lpn(77)));
        assert!(found.detail.contains("cannot be read"), "{found:?}");
        assert_eq!((device.test_maps(), device.test_units(500..16384)), (Ok(None), Ok(None)));
        let at_ns = device.time_ns();
        device.cut_power(at_ns);
        assert_eq!(device.test_units(0..1), Err(Status::PowerLost));
    }
}
