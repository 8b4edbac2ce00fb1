//! The bottleneck: how busy the drive's parts were, and how many commands were in each, from the drive's own sums.
//!
//! The sum of the commands' times, divided by the time that passed, is how many of them were in flight on average
//! (Little's law). A part that is nearly 100 % busy is the bottleneck; if there is none, clients do not wait for the drive.

use tantalum::{Device, Nanoseconds, Profile, Usage};
use tantalum_report::{Figures, Row};

/// What a drive's parts did in some time.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    /// What was added to the sums.
    pub usage: Usage,
    /// The drive's time that passed.
    pub elapsed_ns: Nanoseconds,
}

impl Phase {
    /// Between two readings of a mounted drive: usage and seconds.
    pub fn between(before: &(Usage, f64), after: &(Usage, f64)) -> Phase {
        let elapsed_ns = ((after.1 - before.1) * 1e9) as Nanoseconds;
        Phase { usage: after.0.since(&before.0), elapsed_ns }
    }
}

/// The beginning of a phase.
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    usage: Usage,
    at_ns: Nanoseconds,
}

impl Beginning {
    /// Starts measuring now.
    pub fn of(device: &Device) -> Beginning {
        Beginning { usage: device.usage(), at_ns: device.time_ns() }
    }

    /// Everything done since.
    pub fn until(self, device: &Device) -> Phase {
        Phase { usage: device.usage().since(&self.usage), elapsed_ns: device.time_ns() - self.at_ns }
    }
}

/// A sum of a usage, and how many of its parts work at once.
type Part = (&'static str, fn(&Usage) -> Nanoseconds, u32);

/// Two tables, with a row for each phase: how busy, in percent; how many commands, and transfers that wait.
pub fn figures(profile: &Profile, phases: &[(String, Phase)]) -> Vec<Figures> {
    let flash = &profile.flash;
    let planes = flash.channels * flash.dies_per_channel * flash.planes_per_die;
    let busy: [Part; 8] = [
        ("planes", |usage| planes_ns(usage), planes),
        ("by reads", |usage| usage.plane_reads_ns, planes),
        ("by programs for hosts", |usage| usage.plane_programs_ns, planes),
        ("by collection", |usage| usage.plane_background_ns, planes),
        ("by erases", |usage| usage.plane_erases_ns, planes),
        ("channels", |usage| usage.channels_ns, flash.channels),
        ("firmware", |usage| usage.firmware_ns, profile.firmware.cores),
        ("link", |usage| usage.link_ns, 1),
    ];
    let under_way: [Part; 6] = [
        ("reads", |usage| usage.reads_ns, 1),
        ("writes", |usage| usage.writes_ns, 1),
        ("flushes", |usage| usage.flushes_ns, 1),
        ("others", |usage| usage.others_ns, 1),
        ("for firmware", |usage| usage.firmware_waited_ns, 1),
        // a command that moves several pieces of data has a transfer for each
        ("transfers for the link", |usage| usage.link_waited_ns, 1),
    ];
    vec![
        table("what binds: how busy the drive was", "percent", 100.0, &busy, phases),
        table(
            "what binds: commands under way on average, of them those that wait for firmware, and transfers that wait for the link",
            "commands, transfers",
            1.0,
            &under_way,
            phases,
        ),
    ]
}

fn planes_ns(usage: &Usage) -> Nanoseconds {
    usage.plane_reads_ns + usage.plane_programs_ns + usage.plane_background_ns + usage.plane_erases_ns
}

fn table(title: &str, unit: &'static str, whole: f64, parts: &[Part], phases: &[(String, Phase)]) -> Figures {
    let share = |phase: &Phase, &(_, of, number): &Part| {
        of(&phase.usage) as f64 * whole / f64::from(number) / phase.elapsed_ns.max(1) as f64
    };
    let row = |(name, phase): &(String, Phase)| Row {
        name: name.clone(),
        ours: parts.iter().map(|part| share(phase, part)).collect(),
        paper: None,
    };
    Figures {
        title: title.to_owned(),
        unit,
        columns: parts.iter().map(|(name, ..)| (*name).to_owned()).collect(),
        rows: phases.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use tantalum::Command;

    use super::*;

    #[test]
    fn one_write_after_the_other_is_one_under_way_and_what_it_does_takes_its_part_of_the_time() {
        let mut profile = Profile::load("femu-2021").unwrap();
        profile.capacity_bytes = 64 << 20;
        let mut device = Device::in_memory(&profile).unwrap();
        let beginning = Beginning::of(&device);
        for unit in 0..100 {
            let command =
                Command::Write { lpn: tantalum::Lpn(unit), data: &[1; 4096], fua: false, handle: None };
            device.submit(command, device.time_ns()).unwrap();
        }
        let phase = beginning.until(&device);
        let tables = figures(&profile, &[("writes".to_owned(), phase)]);
        // a program of 500 us, 10 us of firmware and two transfers, of which a plane of eight does the first
        let cell = |table: usize, name: &str| {
            let columns = &tables[table].columns;
            tables[table].row("writes")[columns.iter().position(|column| column == name).unwrap()]
        };
        let busy = |name: &str| cell(0, name);
        let programs = 100.0 * 500.0 / 510.8 / 8.0;
        assert!((busy("by programs for hosts") - programs).abs() < 0.1, "{tables:?}");
        assert!((busy("firmware") - 100.0 * 10.0 / 510.8).abs() < 0.1, "{tables:?}");
        assert!((cell(1, "writes") - 1.0).abs() < 0.001, "{tables:?}");
        assert_eq!((busy("by reads"), cell(1, "for firmware")), (0.0, 0.0));
    }
}
