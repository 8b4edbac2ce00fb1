//! The cost of requests to programs: time, and bytes over the link.

use tantalum::Nanoseconds;
use tantalum_spu::Ssd;
use tantalum_store::host::ENDPOINT;

/// The mean cost of each thing measured.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Took {
    pub us: f64,
    pub link_bytes: f64,
    pub requests: f64,
}

/// Bytes over the link and time, since a moment.
pub(super) struct Meter {
    link_bytes: u64,
    at_ns: Nanoseconds,
}

impl Meter {
    pub fn start(ssd: &mut Ssd) -> Meter {
        while ssd.next_event().is_some() {}
        let (down, up) = ssd.link_bytes();
        Meter { link_bytes: down + up, at_ns: ssd.now_ns() }
    }

    /// The cost of each of `count` things, for which the host sent `requests` in total, one after the other.
    pub fn stop(&self, ssd: &Ssd, count: u64, requests: u64) -> Took {
        let (down, up) = ssd.link_bytes();
        let host_ns = requests * (ENDPOINT.submit_ns + ENDPOINT.complete_ns);
        let each = |sum: u64| sum as f64 / count as f64;
        Took {
            us: each(ssd.now_ns() - self.at_ns + host_ns) / 1e3,
            link_bytes: each(down + up - self.link_bytes),
            requests: each(requests),
        }
    }
}
