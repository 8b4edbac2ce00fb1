//! Maps the addresses of a trace to the drive.
//!
//! Volumes are placed one after the other. If they do not all fit, the user chooses: [`Scale::Fit`] leaves out what the
//! trace never touches and, if the rest is still too large, maps several of its chunks to one chunk of the drive;
//! [`Scale::Wrap`] continues at the beginning of the drive; [`Scale::None`] refuses. Offsets within a chunk do not change,
//! so sequential requests stay sequential, and unaligned ones unaligned.

use std::str::FromStr;

use tantalum_report::table::{bytes, grouped};

use crate::survey::Survey;
use crate::touched_chunks::{CHUNK_BYTES, Touched};
use crate::trace::{Operation, Request};

/// What to do with addresses beyond the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scale {
    /// Leaves out what is never touched, and overlays what still does not fit.
    #[default]
    Fit,
    /// Takes addresses modulo the capacity.
    Wrap,
    /// They are refused.
    None,
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(name: &str) -> Result<Scale, String> {
        match name {
            "fit" => Ok(Scale::Fit),
            "wrap" => Ok(Scale::Wrap),
            "none" => Ok(Scale::None),
            _ => Err("use one of fit, wrap, none".to_owned()),
        }
    }
}

/// A contiguous range of bytes of the drive.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Piece {
    pub offset: u64,
    pub bytes: u64,
}

/// Bytes of a request beyond the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Beyond {
    pub end_bytes: u64,
}

/// The addresses of a trace on a drive.
#[derive(Debug)]
pub(crate) struct Placement {
    way: Way,
    capacity_bytes: u64,
    about: String,
}

#[derive(Debug)]
enum Way {
    /// Where each volume begins, and its size in bytes.
    Linear { volumes: Vec<Piece> },
    /// Where each volume begins; addresses are taken modulo the capacity.
    Wrapped { bases: Vec<u64> },
    /// Touched chunks by rank, spread over this many chunks of the drive.
    Chunks { touched: Touched, chunks: u64, places: u64 },
}

impl Placement {
    /// Computes it; takes the survey's touched places.
    pub(crate) fn of(survey: &mut Survey, scale: Scale, capacity_bytes: u64) -> Placement {
        let mut bases = Vec::with_capacity(survey.volumes.len());
        let mut end = 0u64;
        for volume in &survey.volumes {
            bases.push(end);
            // a new volume begins at a chunk, so that aligned requests stay aligned
            end = end
                .saturating_add(volume.end_bytes)
                .checked_next_multiple_of(CHUNK_BYTES)
                .unwrap_or(u64::MAX);
        }
        let span = bases
            .last()
            .zip(survey.volumes.last())
            .map_or(0, |(base, last)| base.saturating_add(last.end_bytes));
        let order = if survey.volumes.len() > 1 {
            format!("{} volumes one after the other", grouped(survey.volumes.len() as u64))
        } else {
            "as in the trace".to_owned()
        };
        let fits = span <= capacity_bytes;
        let (way, about) = match scale {
            Scale::Wrap if !fits => {
                let about = format!("{order}, {} modulo the drive's {}", bytes(span), bytes(capacity_bytes));
                (Way::Wrapped { bases }, about)
            }
            Scale::Fit if !fits => Placement::chunks(survey, capacity_bytes),
            _ => {
                let about = format!("{order}, {} of the drive's {}", bytes(span), bytes(capacity_bytes));
                (Placement::linear(survey, &bases, capacity_bytes), about)
            }
        };
        Placement { way, capacity_bytes, about }
    }

    fn linear(survey: &Survey, bases: &[u64], capacity_bytes: u64) -> Way {
        let volume = |(base, volume): (&u64, &crate::survey::Volume)| Piece {
            offset: *base,
            // a volume that is alone may deallocate what it never touches
            bytes: if bases.len() == 1 { capacity_bytes } else { volume.end_bytes },
        };
        Way::Linear { volumes: bases.iter().zip(&survey.volumes).map(volume).collect() }
    }

    fn chunks(survey: &mut Survey, capacity_bytes: u64) -> (Way, String) {
        let touches = std::mem::take(&mut survey.touches);
        let (chunks, places) = (touches.chunks(), (capacity_bytes / CHUNK_BYTES).max(1));
        let touched = bytes(chunks * CHUNK_BYTES);
        let about = match chunks > places {
            true => format!(
                "scaled: the {touched} that the trace touches are mapped to the drive's {}, {:.2} MiB to each MiB",
                bytes(capacity_bytes),
                chunks as f64 / places as f64
            ),
            false => format!(
                "scaled: the {touched} that the trace touches are placed together on the drive's {}; the rest is left out",
                bytes(capacity_bytes)
            ),
        };
        (Way::Chunks { touched: touches.ranked(), chunks, places }, about)
    }

    /// What was done, in words.
    pub(crate) fn about(&self) -> &str {
        &self.about
    }

    /// Where a request's bytes are, in order; adjacent ones are one piece. Deallocated bytes without a place on the
    /// drive are left out.
    pub(crate) fn place(&self, request: &Request, pieces: &mut Vec<Piece>) -> Result<(), Beyond> {
        pieces.clear();
        let Request { volume, offset, bytes, .. } = *request;
        let trims = request.operation == Operation::Trim;
        match &self.way {
            Way::Linear { volumes } => {
                let place = volumes[volume as usize];
                let end = offset + bytes;
                if end > place.bytes && !trims
                    || place.offset.saturating_add(end.min(place.bytes)) > self.capacity_bytes
                {
                    return Err(Beyond { end_bytes: place.offset.saturating_add(end) });
                }
                let end = end.min(place.bytes);
                push(pieces, place.offset + offset.min(end), end.saturating_sub(offset));
            }
            Way::Wrapped { bases } => {
                push_wrapped(pieces, bases[volume as usize], offset, bytes, self.capacity_bytes);
            }
            Way::Chunks { touched, chunks, places } => {
                let (mut at, end) = (offset, offset + bytes);
                while let Some(chunk) = (at < end)
                    .then(|| touched.next(volume, at / CHUNK_BYTES, end.div_ceil(CHUNK_BYTES)))
                    .flatten()
                {
                    let rank = touched.rank(volume, chunk).expect("it was found there");
                    let place = place_of(rank, *chunks, *places);
                    at = at.max(chunk * CHUNK_BYTES);
                    let until = end.min((chunk + 1).saturating_mul(CHUNK_BYTES));
                    push(pieces, place * CHUNK_BYTES + at % CHUNK_BYTES, until - at);
                    at = until;
                }
            }
        }
        Ok(())
    }
}

/// The place of the touched chunk with this rank.
fn place_of(rank: u64, chunks: u64, places: u64) -> u64 {
    if chunks <= places { rank } else { (u128::from(rank) * u128::from(places) / u128::from(chunks)) as u64 }
}

/// Bytes at an offset from `base`, on a drive that wraps around.
fn push_wrapped(pieces: &mut Vec<Piece>, base: u64, offset: u64, bytes: u64, capacity_bytes: u64) {
    let mut left = bytes.min(capacity_bytes);
    let mut from = (base % capacity_bytes + offset % capacity_bytes) % capacity_bytes;
    while left > 0 {
        let length = left.min(capacity_bytes - from);
        push(pieces, from, length);
        (from, left) = (0, left - length);
    }
}

fn push(pieces: &mut Vec<Piece>, offset: u64, bytes: u64) {
    match pieces.last_mut() {
        Some(last) if last.offset + last.bytes == offset => last.bytes += bytes,
        _ if bytes > 0 => pieces.push(Piece { offset, bytes }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::Volume;
    use crate::touched_chunks::Touches;
    use crate::trace::Format;

    const MIB: u64 = CHUNK_BYTES;

    fn request(volume: u32, operation: Operation, offset: u64, bytes: u64) -> Request {
        Request { at_ns: 0, line: 1, volume, operation, offset, bytes }
    }

    fn placement(requests: &[(u32, u64, u64)], scale: Scale, capacity_bytes: u64) -> Placement {
        let mut touches = Touches::default();
        let mut volumes = Vec::new();
        for &(volume, offset, bytes) in requests {
            touches.note(volume, offset, bytes);
            volumes
                .resize(volumes.len().max(volume as usize + 1), Volume { name: String::new(), end_bytes: 0 });
            let end = &mut volumes[volume as usize].end_bytes;
            *end = (*end).max(offset + bytes);
        }
        let mut survey = Survey {
            input: None,
            format: Some(Format::Fio),
            has_times: true,
            requests: 1,
            volumes,
            first_ns: 0,
            last_ns: 0,
            left_out: 0,
            note: None,
            late: (0, 0),
            touches,
        };
        Placement::of(&mut survey, scale, capacity_bytes)
    }

    fn places(placement: &Placement, request: &Request) -> Vec<(u64, u64)> {
        let mut pieces = Vec::new();
        placement.place(request, &mut pieces).unwrap();
        pieces.iter().map(|piece| (piece.offset, piece.bytes)).collect()
    }

    const READ: Operation = Operation::Read;

    #[test]
    fn what_fits_lies_where_it_lay_and_volumes_one_after_the_other() {
        for scale in [Scale::Fit, Scale::Wrap, Scale::None] {
            let placement = placement(&[(0, 100, 4000), (1, 0, 512)], scale, 2 * MIB);
            assert_eq!(places(&placement, &request(0, READ, 100, 4000)), [(100, 4000)]);
            assert_eq!(places(&placement, &request(1, READ, 0, 512)), [(MIB, 512)]);
        }
    }

    #[test]
    fn without_scaling_what_is_beyond_is_refused_and_deallocation_is_cut_off() {
        let placement = placement(&[(0, 0, 3 * MIB)], Scale::None, 2 * MIB);
        let mut pieces = Vec::new();
        let beyond = placement.place(&request(0, READ, 2 * MIB - 1, 2), &mut pieces);
        assert_eq!(beyond, Err(Beyond { end_bytes: 2 * MIB + 1 }));
        assert_eq!(places(&placement, &request(0, Operation::Trim, MIB, u64::MAX - MIB)), [(MIB, MIB)]);
        assert_eq!(places(&placement, &request(0, Operation::Trim, 5 * MIB, 5)), []);
    }

    #[test]
    fn wrapping_goes_on_at_the_beginning() {
        let placement = placement(&[(0, 0, 10 * MIB)], Scale::Wrap, 2 * MIB);
        assert_eq!(places(&placement, &request(0, READ, 5 * MIB + 512, 1024)), [(MIB + 512, 1024)]);
        assert_eq!(
            places(&placement, &request(0, READ, 4 * MIB - 512, 1024)),
            [(2 * MIB - 512, 512), (0, 512)]
        );
        let all = request(0, Operation::Trim, 0, u64::MAX);
        assert_eq!(places(&placement, &all), [(0, 2 * MIB)]);
    }

    #[test]
    fn fitting_leaves_out_what_is_never_touched() {
        let far = 1 << 50;
        let placement = placement(&[(0, far, MIB + 1), (1, 7 * MIB + 5, 10)], Scale::Fit, 4 * MIB);
        assert!(
            placement.about().contains("3 MiB that the trace touches are placed together"),
            "{}",
            placement.about()
        );
        assert_eq!(places(&placement, &request(0, READ, far + 3, MIB)), [(3, MIB)]);
        assert_eq!(places(&placement, &request(1, READ, 7 * MIB + 5, 10)), [(2 * MIB + 5, 10)]);
        // bytes that are deallocated but never written have no place on the drive
        assert_eq!(places(&placement, &request(0, Operation::Trim, 0, far)), []);
        assert_eq!(places(&placement, &request(0, Operation::Trim, 0, u64::MAX)), [(0, 2 * MIB)]);
    }

    #[test]
    fn what_is_touched_and_does_not_fit_shares_places_and_keeps_its_alignment() {
        let placement = placement(&[(0, 0, 8 * MIB)], Scale::Fit, 4 * MIB);
        assert!(placement.about().contains("2.00 MiB to each"), "{}", placement.about());
        assert_eq!(places(&placement, &request(0, READ, 3 * MIB + 512, 64)), [(MIB + 512, 64)]);
        assert_eq!(places(&placement, &request(0, READ, 7 * MIB, MIB)), [(3 * MIB, MIB)]);
        // these chunks are adjacent there as well
        let over = request(0, READ, 2 * MIB - 512, 1024);
        assert_eq!(places(&placement, &over), [(MIB - 512, 1024)]);
    }

    #[test]
    fn every_address_has_a_place_on_the_drive() {
        let mut random = tantalum_image::SplitMix64(5);
        for capacity_bytes in [MIB, 3 * MIB, 100 * MIB, MIB + 4096] {
            let requests: Vec<(u32, u64, u64)> = (0..300)
                .map(|_| (random.below(3) as u32, random.below(1 << 44), 1 + random.below(9 * MIB)))
                .collect();
            for scale in [Scale::Fit, Scale::Wrap] {
                let placement = placement(&requests, scale, capacity_bytes);
                for &(volume, offset, bytes) in &requests {
                    let placed = places(&placement, &request(volume, READ, offset, bytes));
                    assert!(placed.iter().all(|(from, length)| from + length <= capacity_bytes));
                    let sum: u64 = placed.iter().map(|(_, length)| length).sum();
                    let whole = if scale == Scale::Wrap { bytes.min(capacity_bytes) } else { bytes };
                    assert_eq!(sum, whole, "{volume} {offset} {bytes}");
                    assert_eq!(placed[0].0 % 512, offset % 512);
                }
            }
        }
    }
}
