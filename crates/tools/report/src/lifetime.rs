//! How much of a drive's life is used, and how long the rest will last.
//!
//! Flash is rated in erases of each block. So the whole flash can be programmed that many times, and hosts can write that
//! amount divided by the write amplification. These are estimates like those of manufacturers: they assume that all blocks
//! wear equally.

use serde::{Deserialize, Serialize};

use crate::text::figure_text;

/// The years for which drive writes per day are usually stated.
pub const WARRANTY_YEARS: f64 = 5.0;

/// Days of a year.
pub const DAYS_PER_YEAR: f64 = 365.0;

/// The rating of a drive's flash, and how much of it is used.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Endurance {
    /// Bytes of flash, of which hosts see less.
    pub flash_bytes: u64,
    /// Bytes that hosts see.
    pub capacity_bytes: u64,
    /// Rated erases of a block.
    pub cycles: u32,
    /// Erases of a block so far, on average.
    pub erases: f64,
}

/// How long a drive lasts under hosts that cause one write amplification.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Lifetime {
    /// Bytes that hosts may write in the whole life (TBW).
    pub host_bytes: f64,
    /// Bytes that hosts may still write.
    pub host_bytes_left: f64,
    /// How often a day the capacity may be written, for [`WARRANTY_YEARS`] from new (DWPD).
    pub drive_writes_per_day: f64,
}

/// Bytes as drive makers state them: in powers of ten.
pub fn terabytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 1e12 => format!("{} TB", figure_text(bytes / 1e12)),
        bytes => format!("{} GB", figure_text(bytes / 1e9)),
    }
}

impl Endurance {
    /// Rated erases that have been done, in percent (NVMe: Percentage Used); may exceed 100.
    pub fn percentage_used(&self) -> f64 {
        self.erases * 100.0 / f64::from(self.cycles.max(1))
    }

    /// The life at a write amplification. `None` if that is not above 0, because nothing was written.
    pub fn lifetime(&self, write_amplification: f64) -> Option<Lifetime> {
        if write_amplification.is_nan() || write_amplification <= 0.0 {
            return None;
        }
        let host_bytes = self.flash_bytes as f64 * f64::from(self.cycles) / write_amplification;
        let left = (1.0 - self.percentage_used() / 100.0).max(0.0);
        let days = WARRANTY_YEARS * DAYS_PER_YEAR;
        Some(Lifetime {
            host_bytes,
            host_bytes_left: host_bytes * left,
            drive_writes_per_day: host_bytes / (self.capacity_bytes.max(1) as f64 * days),
        })
    }
}

impl Lifetime {
    /// The remaining lifetime in years if hosts write this much a day. `None` if they write nothing.
    pub fn years_at(&self, host_bytes_per_day: f64) -> Option<f64> {
        (host_bytes_per_day > 0.0).then(|| self.host_bytes_left / host_bytes_per_day / DAYS_PER_YEAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    const ENDURANCE: Endurance =
        Endurance { flash_bytes: 2 * GIB, capacity_bytes: GIB, cycles: 3000, erases: 750.0 };

    #[test]
    fn a_life_follows_from_flash_cycles_and_amplification() {
        let life = ENDURANCE.lifetime(3.0).unwrap();
        assert_eq!(ENDURANCE.percentage_used(), 25.0);
        assert_eq!(life.host_bytes, 2000.0 * GIB as f64);
        assert_eq!(life.host_bytes_left, 1500.0 * GIB as f64);
        assert!((life.drive_writes_per_day - 2000.0 / 1825.0).abs() < 1e-9);
        let years = life.years_at(1500.0 / 365.0 * GIB as f64).unwrap();
        assert!((years - 1.0).abs() < 1e-9, "{years}");
        assert_eq!(life.years_at(0.0), None);
    }

    #[test]
    fn a_worn_out_drive_has_nothing_left() {
        let worn = Endurance { erases: 3300.0, ..ENDURANCE };
        assert!((worn.percentage_used() - 110.0).abs() < 1e-9);
        let life = worn.lifetime(1.0).unwrap();
        assert_eq!((life.host_bytes_left, life.years_at(1.0)), (0.0, Some(0.0)));
    }

    #[test]
    fn nothing_written_tells_nothing() {
        for write_amplification in [0.0, -1.0, f64::NAN] {
            assert_eq!(ENDURANCE.lifetime(write_amplification), None);
        }
    }
}
