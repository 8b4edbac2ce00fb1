//! How long a drive lasts, for `tantalum stat` and `tantalum info`.

use clap::Args;
use serde::Serialize;
use tantalum::{Size, UNIT_BYTES};
use tantalum_report::table::{bytes, grouped};
use tantalum_report::{Endurance, Lifetime, WARRANTY_YEARS, figure_text, terabytes};

/// Beyond this many years the exact number is meaningless.
const MOST_YEARS: f64 = 1000.0;

/// The load for which a lifetime is computed.
#[derive(Args, Debug)]
pub struct LoadOptions {
    /// Report how many years the drive lasts if this much is written to it each day [default: its capacity]
    #[arg(long, value_name = "SIZE")]
    pub load: Option<Size>,
}

/// How much of a drive's life is used, and how long the rest will last.
#[derive(Serialize)]
pub struct Life {
    percentage_used: f64,
    /// `None` before anything was written.
    lifetime: Option<Lifetime>,
    load_bytes_per_day: u64,
    years_left: Option<f64>,
}

/// The endurance of a drive's flash, from the figures of a report.
pub fn endurance(flash_units: u32, capacity_units: u64, cycles: u32, erases: f64) -> Endurance {
    let unit = UNIT_BYTES as u64;
    Endurance {
        flash_bytes: u64::from(flash_units) * unit,
        capacity_bytes: capacity_units * unit,
        cycles,
        erases,
    }
}

impl Life {
    /// The life at a write amplification.
    pub fn of(endurance: &Endurance, write_amplification: f64, options: &LoadOptions) -> Life {
        let load_bytes_per_day = options.load.map_or(endurance.capacity_bytes, |Size(bytes)| bytes);
        let lifetime = endurance.lifetime(write_amplification);
        Life {
            percentage_used: endurance.percentage_used(),
            years_left: lifetime.and_then(|life| life.years_at(load_bytes_per_day as f64)),
            lifetime,
            load_bytes_per_day,
        }
    }

    /// As text: names and values.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let used = format!("{:.2} % of the rated erases", self.percentage_used);
        let mut lines = vec![("percentage used", used)];
        if let Some(life) = &self.lifetime {
            let rated = format!(
                "{} written, {} drive writes a day for {WARRANTY_YEARS} years",
                terabytes(life.host_bytes),
                figure_text(life.drive_writes_per_day)
            );
            lines.push(("endurance", rated));
        }
        if let Some(years) = self.years_left {
            lines.push((
                "life left",
                format!("{} at {} a day", years_text(years), bytes(self.load_bytes_per_day)),
            ));
        }
        lines
    }
}

fn years_text(years: f64) -> String {
    match years {
        years if years > MOST_YEARS => format!("more than {} years", grouped(MOST_YEARS as u64)),
        years => format!("{} years", figure_text(years)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_told_for_the_load_that_is_stated() {
        let endurance = endurance(1 << 19, 1 << 18, 3000, 30.0);
        let lines = |load| Life::of(&endurance, 2.0, &LoadOptions { load }).lines();
        let by_default = lines(None);
        assert_eq!(by_default[0].1, "1.00 % of the rated erases");
        assert_eq!(by_default[1].1, "3.22 TB written, 1.64 drive writes a day for 5 years");
        assert_eq!(by_default[2].1, "8.14 years at 1 GiB a day");
        assert_eq!(lines(Some(Size(1 << 28)))[2].1, "32.5 years at 256 MiB a day");
        assert_eq!(lines(Some(Size(4096)))[2].1, "more than 1,000 years at 4 KiB a day");
    }

    #[test]
    fn a_new_drive_says_nothing_of_its_life() {
        let life = Life::of(&endurance(1 << 19, 1 << 18, 3000, 0.0), 0.0, &LoadOptions { load: None });
        assert_eq!(life.lines(), [("percentage used", "0.00 % of the rated erases".to_owned())]);
    }
}
