//! Power is cut at random flash operations while a host appends to zones, writes, flushes, resets and finishes them. Write pointers are
//! then not before what was durable, nor behind what was written; what is before them is what was written there, and nothing of a zone
//! that was reset comes back. `SEED` and `CUTS` choose another run, or a longer one.

use crate::common::witness::number;
use crate::common::zoned::{CAPACITY, SIZE, ZONES, server};
use crate::common::{Host, UNIT, attach, pattern};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Plp, PowerLoss};
use tantalum_nvme::client::{Client, Options, block_command, zone_append, zone_send, zoned};
use tantalum_nvme::failure::Failure;
use tantalum_nvme::server::Server;
use tantalum_nvme::wire::opcode::nvm;
use tantalum_nvme::wire::zones::{action, state};

/// What a host knows of a zone.
#[derive(Clone, Default)]
struct Zone {
    /// What each unit has that was written or is being written.
    units: Vec<u64>,
    /// As many of them are durable.
    durable: usize,
    is_full: bool,
    /// An action was sent and not answered.
    is_being_reset: bool,
    is_being_finished: bool,
}

/// How often what a test is about has happened.
#[derive(Default, Debug)]
struct Seen {
    cuts: u32,
    lost: u32,
    kept: u32,
    resets: u32,
    finishes: u32,
}

struct Witness {
    zones: Vec<Zone>,
    writes_are_durable: bool,
    stamps: u64,
    rng: Xoshiro256PlusPlus,
    seen: Seen,
}

/// The connection has ended, or the drive has no power.
struct Gone;

fn done(code: u16) -> Result<(), Gone> {
    assert!([0, Failure::POWER_LOSS.code()].contains(&code), "status {code:#x}");
    if code == 0 { Ok(()) } else { Err(Gone) }
}

impl Witness {
    fn stamped(&mut self, zone: usize, count: usize) -> Vec<u8> {
        let from = self.stamps;
        self.stamps += count as u64;
        self.zones[zone].units.extend(from..from + count as u64);
        (from..from + count as u64).flat_map(|stamp| pattern(stamp, UNIT)).collect()
    }

    fn were_flushed(&mut self) {
        self.zones.iter_mut().for_each(|zone| zone.durable = zone.units.len());
    }

    fn room(&self, zone: usize) -> usize {
        if self.zones[zone].is_full { 0 } else { CAPACITY as usize - self.zones[zone].units.len() }
    }

    /// Whether another zone may be active.
    fn may_write(&self, zone: usize) -> bool {
        let is_active = |zone: &&Zone| !zone.is_full && (1..CAPACITY as usize).contains(&zone.units.len());
        let active = self.zones.iter().filter(is_active).count();
        !self.zones[zone].units.is_empty() || active < ZONES.max_active as usize
    }

    /// Works until power goes.
    fn work(&mut self, io: &mut Client) -> Result<(), Gone> {
        loop {
            let zone = self.rng.random_range(0..ZONES.count as usize);
            match self.rng.random_range(0..20) {
                0 => {
                    done(io.command(block_command(nvm::FLUSH, 0, 1)).map_err(|_| Gone)?.code)?;
                    self.were_flushed();
                }
                1 => self.reset(io, zone)?,
                2 if !self.zones[zone].units.is_empty() => self.finish(io, zone)?,
                _ if self.room(zone) == 0 => self.reset(io, zone)?,
                3..=8 if self.may_write(zone) => self.write(io, zone)?,
                _ if self.may_write(zone) => self.append(io, zone)?,
                _ => self.finish_all(io)?,
            }
        }
    }

    fn write(&mut self, io: &mut Client, zone: usize) -> Result<(), Gone> {
        let count = self.rng.random_range(1..=self.room(zone).min(20));
        let first = zone as u64 * SIZE + self.zones[zone].units.len() as u64;
        let data = self.stamped(zone, count);
        let is_forced = self.rng.random_ratio(1, 4);
        let mut write = zoned(nvm::WRITE, first, count as u32);
        write.dword10[2] = (write.dword(12) | u32::from(is_forced) << 30).into();
        done(io.write_command(write, &data).map_err(|_| Gone)?.code)?;
        if is_forced || self.writes_are_durable {
            self.zones[zone].durable = self.zones[zone].units.len();
        }
        Ok(())
    }

    /// Several appends at once: each tells where it wrote. Their data come with them, so they reach the drive in order.
    fn append(&mut self, io: &mut Client, zone: usize) -> Result<(), Gone> {
        let mut sent = Vec::new();
        for _ in 0..self.rng.random_range(1..12) {
            if self.room(zone) > 0 {
                let count = self.rng.random_range(1..=self.room(zone).min(2));
                let first = zone as u64 * SIZE + self.zones[zone].units.len() as u64;
                let data = self.stamped(zone, count);
                let append = zone_append(zone as u64 * SIZE, count as u32);
                let id = io.submit_write(append, data).map_err(|_| Gone)?;
                sent.push((id, first, self.zones[zone].units.len()));
            }
        }
        for _ in 0..sent.len() {
            let ended = io.reap().map_err(|_| Gone)?;
            done(ended.code)?;
            let (_, first, written) = sent.iter().find(|(id, ..)| *id == ended.id).unwrap();
            assert_eq!(ended.result, *first, "appends of one queue follow each other");
            if self.writes_are_durable {
                self.zones[zone].durable = self.zones[zone].durable.max(*written);
            }
        }
        Ok(())
    }

    fn reset(&mut self, io: &mut Client, zone: usize) -> Result<(), Gone> {
        self.zones[zone].is_being_reset = true;
        let reset = zone_send(action::RESET, Some(zone as u64 * SIZE));
        done(io.command(reset).map_err(|_| Gone)?.code)?;
        self.zones[zone] = Zone::default();
        self.seen.resets += 1;
        Ok(())
    }

    fn finish(&mut self, io: &mut Client, zone: usize) -> Result<(), Gone> {
        self.zones[zone].is_being_finished = true;
        let finish = zone_send(action::FINISH, Some(zone as u64 * SIZE));
        done(io.command(finish).map_err(|_| Gone)?.code)?;
        self.finished(zone);
        Ok(())
    }

    fn finished(&mut self, zone: usize) {
        let finished = &mut self.zones[zone];
        (finished.is_full, finished.is_being_finished) = (true, false);
        finished.durable = finished.units.len();
        self.seen.finishes += 1;
    }

    /// The zones that are active.
    fn finish_all(&mut self, io: &mut Client) -> Result<(), Gone> {
        let active = (0..self.zones.len())
            .filter(|zone| !self.zones[*zone].units.is_empty() && self.room(*zone) > 0)
            .collect::<Vec<_>>();
        active.iter().for_each(|zone| self.zones[*zone].is_being_finished = true);
        done(io.command(zone_send(action::FINISH, None)).map_err(|_| Gone)?.code)?;
        active.iter().for_each(|zone| self.finished(*zone));
        Ok(())
    }

    /// What is there after a cut, which is durable.
    fn look(&mut self, host: &mut Host) {
        let states = host.states();
        for (number, (state, pointer)) in states.into_iter().enumerate() {
            let zone = self.zones[number].clone();
            let first = number as u64 * SIZE;
            let mut found = Vec::new();
            for (at, stamp) in zone.units.iter().enumerate() {
                if host.zone_read(first + at as u64, 1).unwrap() != pattern(*stamp, UNIT) {
                    break;
                }
                found.push(*stamp);
            }
            let context = format!(
                "zone {number}: {state:#x}, {pointer}; {} of {} durable, {} found",
                zone.durable,
                zone.units.len(),
                found.len()
            );
            let was_reset = zone.is_being_reset && state == state::EMPTY;
            if was_reset {
                found.clear();
            } else {
                assert!(found.len() >= zone.durable, "{context}");
            }
            let is_filled = found.len() == CAPACITY as usize;
            match state {
                state::FULL => assert!(zone.is_full || zone.is_being_finished || is_filled, "{context}"),
                state::EMPTY => assert!(found.is_empty() && pointer == 0, "{context}"),
                state::CLOSED => assert_eq!(pointer, found.len() as u64, "{context}"),
                _ => panic!("{context}"),
            }
            if zone.is_full && !was_reset {
                assert_eq!(state, state::FULL, "{context}");
            }
            let last = first + SIZE - 1;
            let behind = (first + found.len() as u64..=last).step_by(64);
            let behind = behind.flat_map(|at| host.zone_read(at, 64.min(last - at + 1) as u32).unwrap());
            let behind: Vec<u8> = behind.collect();
            assert!(behind.iter().all(|byte| *byte == 0), "{context}");
            self.seen.lost += u32::from(!was_reset && found.len() < zone.units.len());
            self.seen.kept += u32::from(found.len() > zone.durable);
            let durable = found.len();
            self.zones[number] =
                Zone { units: found, durable, is_full: state == state::FULL, ..Zone::default() };
        }
        self.seen.cuts += 1;
    }
}

fn recovered(server: &Server, seed: u64) -> Host {
    assert!(server.close());
    server.subsystem().queue.drive().lock().power_on(&mut PowerLoss::seeded(seed)).unwrap();
    server.subsystem().power_on().unwrap();
    server.open();
    attach(server, Options::default())
}

fn cut_again_and_again(plp: Plp, seed: u64, cuts: u64) -> Seen {
    let server = server(plp);
    let mut witness = Witness {
        zones: vec![Zone::default(); ZONES.count as usize],
        writes_are_durable: plp == Plp::Capacitor,
        stamps: 1,
        rng: Xoshiro256PlusPlus::seed_from_u64(seed),
        seen: Seen::default(),
    };
    let mut host = attach(&server, Options::default());
    for cut in 0..cuts {
        let operations = witness.rng.random_range(1..40);
        server.subsystem().queue.drive().lock().cut_after(Some(operations));
        let Err(Gone) = witness.work(&mut host.io) else { unreachable!("it works until power goes") };
        host = recovered(&server, seed << 16 | cut);
        witness.look(&mut host);
    }
    witness.seen
}

#[test]
fn write_pointers_are_where_the_standard_wants_them_after_power_cuts() {
    let (seed, cuts) = (number("SEED", 1), number("CUTS", 60));
    println!("SEED={seed} CUTS={cuts}");
    for plp in [Plp::None, Plp::Capacitor] {
        let seen = cut_again_and_again(plp, seed, cuts);
        let all_happened = seen.resets > 0 && seen.finishes > 0 && seen.kept > 0 && seen.lost > 0;
        assert!(u64::from(seen.cuts) == cuts && all_happened, "{plp:?}: {seen:?}");
        println!("{plp:?}: {seen:?}");
    }
}
