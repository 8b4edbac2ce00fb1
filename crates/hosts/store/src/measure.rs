//! What a run did, and how busy the parts of the host and the drive were.

use tantalum::Nanoseconds;
use tantalum_spu::SpuId;

use crate::transfer::Aries;
use crate::world::Host;

/// What a run did. Shares are fractions of its duration.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Acknowledged transfers of each client.
    pub transfers: Vec<u64>,
    /// How long it took, in virtual time.
    pub elapsed_ns: Nanoseconds,
    /// Share of the clients' time in which their threads computed. Threads that write ARIES's log and pages count as
    /// well.
    pub host: f64,
    /// Share of the time in which the drive's processors executed: the mean, and the busiest one.
    pub processors: [f64; 2],
    /// Requests that the drive's processors handled.
    pub requests: u64,
    /// Share of the time in which the ring was busy.
    pub ring: f64,
    /// Share of the time in which the link was busy: to the drive, and to the host.
    pub link: [f64; 2],
    /// Share of the time in which the banks of the processors' memory were busy; 0 on flash.
    pub memory: f64,
    /// Pages read.
    pub pages_read: u64,
    /// Pages written.
    pub pages_written: u64,
    /// Writes of the log.
    pub log_writes: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Whether power was lost during the run.
    pub lost_power: bool,
}

/// Counters of the drive at a time.
pub(crate) struct Meter {
    at_ns: Nanoseconds,
    host_ns: Nanoseconds,
    busy_ns: Vec<Nanoseconds>,
    requests: u64,
    ring: u64,
    link: (u64, u64),
    memory_ns: Nanoseconds,
}

impl Meter {
    pub fn read(host: &Host) -> Meter {
        let (at_ns, host_ns) = (host.now_ns(), host.busy_ns());
        host.with_ssd(|ssd| Meter {
            at_ns,
            host_ns,
            busy_ns: (0..ssd.processors()).map(|spu| ssd.busy_ns(SpuId(spu))).collect(),
            requests: ssd.requests_handled(),
            ring: ssd.ring_bytes(),
            link: ssd.link_bytes(),
            memory_ns: ssd.memory_counters().busy_ns,
        })
    }
}

impl Ran {
    /// What was done since `before`, with transfers by client.
    pub(crate) fn since(before: &Meter, host: &Host, transfers: Vec<u64>, aries: &Aries) -> Ran {
        let after = Meter::read(host);
        let elapsed_ns = after.at_ns - before.at_ns;
        let (ring_rate, link_rate, has_memory) = host.with_ssd(|ssd| {
            let device = ssd.drive().lock();
            let spu = &device.profile().spu;
            (spu.ring_bytes_per_second, spu.host_bytes_per_second, spu.memory.is_some())
        });
        let time = elapsed_ns as f64;
        let carried = |bytes: u64, rate: u64| bytes as f64 * 1e9 / rate as f64 / time;
        let busy: Vec<f64> =
            after.busy_ns.iter().zip(&before.busy_ns).map(|(now, then)| (now - then) as f64 / time).collect();
        let banks = if has_memory { busy.len() as f64 } else { 1.0 };
        Ran {
            host: (after.host_ns - before.host_ns) as f64 / time / transfers.len() as f64,
            transfers,
            elapsed_ns,
            processors: [
                busy.iter().sum::<f64>() / busy.len() as f64,
                busy.iter().copied().fold(0.0, f64::max),
            ],
            requests: after.requests - before.requests,
            ring: carried(after.ring - before.ring, ring_rate),
            link: [
                carried(after.link.0 - before.link.0, link_rate),
                carried(after.link.1 - before.link.1, link_rate),
            ],
            memory: (after.memory_ns.saturating_sub(before.memory_ns)) as f64 / time / banks,
            pages_read: aries.pool.pages_read.get(),
            pages_written: aries.pool.pages_written.get(),
            log_writes: aries.log.writes.get(),
            checkpoints: aries.checkpoints.get(),
            lost_power: !host.has_power(),
        }
    }
}
