//! The reservation of one namespace (Base, section 8.19): which hosts have registered, with which keys, and what one of them, or all,
//! keep for themselves. No I/O: what a command changes, and who is to be told.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::table::{HOSTS, HostId};
use crate::failure::Failure;

/// What a reservation keeps from others (`RTYPE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Only the holder writes.
    WriteExclusive = 1,
    /// Only the holder reads and writes.
    ExclusiveAccess = 2,
    /// Only registrants write.
    WriteExclusiveRegistrants = 3,
    /// Only registrants read and write.
    ExclusiveAccessRegistrants = 4,
    /// Only registrants write, and all of them hold it.
    WriteExclusiveAll = 5,
    /// Only registrants read and write, and all of them hold it.
    ExclusiveAccessAll = 6,
}

/// What a host may not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Denied {
    /// Commands that read end with Reservation Conflict.
    pub reads: bool,
    /// Commands that write do.
    pub writes: bool,
}

/// What a host is told (`RNLPT`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Notice {
    /// Its registration is gone.
    RegistrationPreempted = 1,
    /// Nobody holds the reservation any more, or it is another one.
    Released = 2,
    /// It held the reservation, and another host does now.
    ReservationPreempted = 3,
}

/// Hosts that are told something.
pub type Notices = Vec<(HostId, Notice)>;

/// A host that has registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Registrant {
    /// The host.
    pub host: HostId,
    /// Its key.
    pub key: u64,
}

/// The reservation of a namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reservation {
    /// Counts changes of registrations (`GEN`).
    pub generation: u32,
    /// What is kept from others, if anything.
    pub kind: Option<Kind>,
    /// Who holds it; none if all registrants do.
    holder: Option<HostId>,
    /// Hosts that have registered, in order; at most 16.
    pub registrants: Vec<Registrant>,
    /// Whether it outlives power losses (`PTPL`).
    pub persists: bool,
}

/// How Reservation Register changes whether the reservation outlives power losses (`CPTPL`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Persistence {
    /// Not.
    Stays,
    /// It does, or does not.
    Becomes(bool),
}

impl Kind {
    /// By its number.
    pub fn of(number: u8) -> Option<Kind> {
        [
            Kind::WriteExclusive,
            Kind::ExclusiveAccess,
            Kind::WriteExclusiveRegistrants,
            Kind::ExclusiveAccessRegistrants,
            Kind::WriteExclusiveAll,
            Kind::ExclusiveAccessAll,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == number)
    }

    fn is_of_all(self) -> bool {
        matches!(self, Kind::WriteExclusiveAll | Kind::ExclusiveAccessAll)
    }

    fn is_of_one(self) -> bool {
        matches!(self, Kind::WriteExclusive | Kind::ExclusiveAccess)
    }

    fn keeps_reads(self) -> bool {
        matches!(self, Kind::ExclusiveAccess | Kind::ExclusiveAccessRegistrants | Kind::ExclusiveAccessAll)
    }
}

impl Reservation {
    fn key_of(&self, host: &HostId) -> Option<u64> {
        self.registrants.iter().find(|there| there.host == *host).map(|there| there.key)
    }

    /// Whether a host holds it.
    pub fn is_held_by(&self, host: &HostId) -> bool {
        self.kind.is_some_and(|kind| match kind.is_of_all() {
            true => self.key_of(host).is_some(),
            false => self.holder == Some(*host),
        })
    }

    /// What a host may not do.
    pub fn denied(&self, host: &HostId) -> Denied {
        let Some(kind) = self.kind else { return Denied::default() };
        let may = self.is_held_by(host) || !kind.is_of_one() && self.key_of(host).is_some();
        Denied { reads: !may && kind.keeps_reads(), writes: !may }
    }

    /// Refuses a host that has not registered with this key.
    fn check_key(&self, host: &HostId, key: u64) -> Result<(), Failure> {
        if self.key_of(host) == Some(key) { Ok(()) } else { Err(Failure::RESERVATION_CONFLICT) }
    }

    fn others<'a>(&'a self, host: &'a HostId) -> impl Iterator<Item = HostId> + 'a {
        self.registrants.iter().map(|there| there.host).filter(move |there| there != host)
    }

    // -- Reservation Register -----------------------------------------------------------------------------------

    /// Registers a host with a key.
    pub fn register(&mut self, host: &HostId, key: u64) -> Result<(), Failure> {
        match self.key_of(host) {
            _ if key == 0 => Err(Failure::INVALID_FIELD),
            Some(there) if there == key => Ok(()),
            Some(_) => Err(Failure::RESERVATION_CONFLICT),
            None if self.registrants.len() >= HOSTS => Err(Failure::TOO_MANY_HOSTS),
            None => {
                self.registrants.push(Registrant { host: *host, key });
                self.generation = self.generation.wrapping_add(1);
                Ok(())
            }
        }
    }

    /// Replaces the key of a host; one that ignores the existing key need not have any.
    pub fn replace(&mut self, host: &HostId, current: Option<u64>, key: u64) -> Result<(), Failure> {
        if key == 0 {
            return Err(Failure::INVALID_FIELD);
        }
        if let Some(current) = current {
            self.check_key(host, current)?;
        }
        match self.registrants.iter_mut().find(|there| there.host == *host) {
            None => return self.register(host, key),
            Some(there) => there.key = key,
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(())
    }

    /// A host is no longer registered.
    pub fn unregister(&mut self, host: &HostId, current: Option<u64>) -> Result<Notices, Failure> {
        match current {
            Some(current) => self.check_key(host, current)?,
            None if self.key_of(host).is_none() => return Err(Failure::RESERVATION_CONFLICT),
            None => {}
        }
        let held = self.is_held_by(host);
        self.registrants.retain(|there| there.host != *host);
        self.generation = self.generation.wrapping_add(1);
        let Some(kind) = self.kind.filter(|_| held) else { return Ok(Vec::new()) };
        if kind.is_of_all() && !self.registrants.is_empty() {
            return Ok(Vec::new());
        }
        (self.kind, self.holder) = (None, None);
        let are_told = !kind.is_of_one();
        Ok(self.others(host).filter(|_| are_told).map(|other| (other, Notice::Released)).collect())
    }

    /// Whether it outlives power losses from now on.
    pub fn persist(&mut self, persistence: Persistence) {
        if let Persistence::Becomes(persists) = persistence {
            self.persists = persists;
        }
    }

    // -- Reservation Acquire and Release ------------------------------------------------------------------------

    /// A registrant takes the reservation.
    pub fn acquire(&mut self, host: &HostId, key: u64, kind: Kind) -> Result<(), Failure> {
        self.check_key(host, key)?;
        match self.kind {
            None => {
                self.take(host, kind);
                Ok(())
            }
            Some(there) if there == kind && self.is_held_by(host) => Ok(()),
            Some(_) => Err(Failure::RESERVATION_CONFLICT),
        }
    }

    fn take(&mut self, host: &HostId, kind: Kind) {
        self.kind = Some(kind);
        self.holder = Some(*host).filter(|_| !kind.is_of_all());
    }

    /// A registrant removes all with a key, and takes the reservation from them if they hold it. Returns also whom it has removed.
    pub fn preempt(
        &mut self,
        host: &HostId,
        key: u64,
        preempted: u64,
        kind: Kind,
    ) -> Result<(Notices, Vec<HostId>), Failure> {
        self.check_key(host, key)?;
        let of_all = self.kind.is_some_and(Kind::is_of_all);
        let holder_key = self.holder.and_then(|holder| self.key_of(&holder));
        let takes = of_all && preempted == 0 || holder_key == Some(preempted) && preempted != 0;
        if preempted == 0 && !takes {
            return Err(Failure::INVALID_FIELD);
        }
        let is_meant = |there: &Registrant| preempted == 0 || there.key == preempted;
        if !self.registrants.iter().any(is_meant) {
            return Err(Failure::RESERVATION_CONFLICT);
        }
        let was_held_by: Vec<HostId> =
            self.registrants.iter().map(|there| there.host).filter(|there| self.is_held_by(there)).collect();
        let goes = |there: &Registrant| is_meant(there) && there.host != *host;
        let removed: Vec<HostId> =
            self.registrants.iter().filter(|there| goes(there)).map(|there| there.host).collect();
        let before = self.kind;
        self.registrants.retain(|there| !goes(there));
        self.generation = self.generation.wrapping_add(1);
        if takes {
            self.take(host, kind);
        }
        let mut notices: Notices = removed
            .iter()
            .map(|gone| match takes && was_held_by.contains(gone) {
                true => (*gone, Notice::ReservationPreempted),
                false => (*gone, Notice::RegistrationPreempted),
            })
            .collect();
        if takes && before != self.kind {
            notices.extend(self.others(host).map(|other| (other, Notice::Released)));
        }
        Ok((notices, removed))
    }

    /// The holder gives the reservation up. A registrant that does not hold it changes nothing.
    pub fn release(&mut self, host: &HostId, key: u64, kind: Option<Kind>) -> Result<Notices, Failure> {
        self.check_key(host, key)?;
        let Some(there) = self.kind.filter(|_| self.is_held_by(host)) else { return Ok(Vec::new()) };
        if kind != Some(there) {
            return Err(Failure::INVALID_FIELD);
        }
        (self.kind, self.holder) = (None, None);
        let are_told = !there.is_of_one();
        Ok(self.others(host).filter(|_| are_told).map(|other| (other, Notice::Released)).collect())
    }

    /// A registrant removes the reservation and all registrations.
    pub fn clear(&mut self, host: &HostId, key: u64) -> Result<Notices, Failure> {
        self.check_key(host, key)?;
        let gone = self.others(host).map(|other| (other, Notice::ReservationPreempted)).collect();
        let generation = self.generation.wrapping_add(1);
        *self = Reservation { generation, persists: self.persists, ..Reservation::default() };
        Ok(gone)
    }
}

// -- as it is kept ----------------------------------------------------------------------------------------------

/// A reservation that outlives power losses, as it is stored.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct StoredReservation {
    /// What distinguishes its namespace from all others.
    pub identity: U64,
    generation: U32,
    /// 0 for none.
    kind: u8,
    /// The index of the holder among the registrants; FFh for none.
    holder: u8,
    registrants: u8,
    reserved: u8,
    hosts: [StoredRegistrant; HOSTS],
}

/// A registrant as it is stored.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct StoredRegistrant {
    host: HostId,
    key: U64,
}

const NO_HOLDER: u8 = 0xff;

impl Reservation {
    /// As it is stored for the namespace with this identity.
    pub fn stored(&self, identity: u64) -> StoredReservation {
        let mut stored = StoredReservation::new_zeroed();
        stored.identity = identity.into();
        stored.generation = self.generation.into();
        stored.kind = self.kind.map_or(0, |kind| kind as u8);
        let at = |holder: HostId| self.registrants.iter().position(|there| there.host == holder);
        stored.holder = self.holder.and_then(at).map_or(NO_HOLDER, |at| at as u8);
        stored.registrants = self.registrants.len() as u8;
        for (stored, there) in stored.hosts.iter_mut().zip(&self.registrants) {
            *stored = StoredRegistrant { host: there.host, key: there.key.into() };
        }
        stored
    }

    /// What was stored; none if nobody can have stored it.
    pub fn of(stored: &StoredReservation) -> Option<Reservation> {
        let hosts = stored.hosts.get(..usize::from(stored.registrants))?;
        let kind = match stored.kind {
            0 => None,
            kind => Some(Kind::of(kind)?),
        };
        let holder = match stored.holder {
            NO_HOLDER => None,
            at => Some(hosts.get(usize::from(at))?.host),
        };
        let is_sound = match kind {
            None => holder.is_none(),
            Some(kind) => kind.is_of_all() == holder.is_none() && !hosts.is_empty(),
        };
        let registrants = hosts.iter().map(|there| Registrant { host: there.host, key: there.key.get() });
        is_sound.then(|| Reservation {
            generation: stored.generation.get(),
            kind,
            holder,
            registrants: registrants.collect(),
            persists: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: HostId = [1; 16];
    const B: HostId = [2; 16];
    const C: HostId = [3; 16];
    const CONFLICT: Failure = Failure::RESERVATION_CONFLICT;

    fn registered() -> Reservation {
        let mut reservation = Reservation::default();
        reservation.register(&A, 10).and_then(|()| reservation.register(&B, 20)).unwrap();
        reservation
    }

    fn held(kind: Kind) -> Reservation {
        let mut reservation = registered();
        reservation.acquire(&A, 10, kind).unwrap();
        reservation
    }

    /// Holder, registrant, and another host: whether reads and writes are denied.
    #[test]
    fn each_kind_keeps_what_the_standard_says_from_others() {
        let no = (false, false);
        for (kind, of_registrant, of_other) in [
            (Kind::WriteExclusive, (false, true), (false, true)),
            (Kind::ExclusiveAccess, (true, true), (true, true)),
            (Kind::WriteExclusiveRegistrants, no, (false, true)),
            (Kind::ExclusiveAccessRegistrants, no, (true, true)),
            (Kind::WriteExclusiveAll, no, (false, true)),
            (Kind::ExclusiveAccessAll, no, (true, true)),
        ] {
            let reservation = held(kind);
            let denied = |host| {
                let denied = reservation.denied(host);
                (denied.reads, denied.writes)
            };
            assert_eq!((denied(&A), denied(&B), denied(&C)), (no, of_registrant, of_other), "{kind:?}");
            let is_of_all = matches!(kind, Kind::WriteExclusiveAll | Kind::ExclusiveAccessAll);
            assert_eq!((reservation.is_held_by(&A), reservation.is_held_by(&B)), (true, is_of_all));
        }
        assert_eq!(registered().denied(&C), Denied::default());
    }

    #[test]
    fn keys_are_registered_replaced_and_given_up() {
        let mut reservation = registered();
        assert_eq!((reservation.register(&A, 10), reservation.register(&A, 11)), (Ok(()), Err(CONFLICT)));
        assert_eq!(reservation.register(&C, 0), Err(Failure::INVALID_FIELD));
        assert_eq!(reservation.generation, 2);
        assert_eq!(reservation.replace(&A, Some(11), 12), Err(CONFLICT));
        assert_eq!((reservation.replace(&A, Some(10), 12), reservation.key_of(&A)), (Ok(()), Some(12)));
        assert_eq!((reservation.replace(&A, None, 13), reservation.key_of(&A)), (Ok(()), Some(13)));
        assert_eq!(
            (reservation.replace(&C, Some(0), 30), reservation.replace(&C, None, 30)),
            (Err(CONFLICT), Ok(()))
        );
        assert_eq!(reservation.generation, 5);
        assert_eq!(reservation.unregister(&B, Some(21)), Err(CONFLICT));
        assert_eq!(reservation.unregister(&B, Some(20)), Ok(vec![]));
        assert_eq!(reservation.unregister(&B, None), Err(CONFLICT));
        assert_eq!(reservation.unregister(&C, None), Ok(vec![]));
        let mut many = Reservation::default();
        (0..HOSTS as u8).for_each(|host| many.register(&[host + 1; 16], 1).unwrap());
        assert_eq!(many.register(&[99; 16], 1), Err(Failure::TOO_MANY_HOSTS));
    }

    #[test]
    fn a_holder_that_leaves_ends_the_reservation() {
        let mut one = held(Kind::WriteExclusive);
        assert_eq!((one.unregister(&A, Some(10)), one.kind), (Ok(vec![]), None));
        let mut registrants = held(Kind::ExclusiveAccessRegistrants);
        assert_eq!(registrants.unregister(&A, Some(10)), Ok(vec![(B, Notice::Released)]));
        assert_eq!(registrants.kind, None);
        let mut other = held(Kind::ExclusiveAccessRegistrants);
        assert_eq!((other.unregister(&B, Some(20)), other.is_held_by(&A)), (Ok(vec![]), true));
        let mut all = held(Kind::WriteExclusiveAll);
        assert_eq!((all.unregister(&A, Some(10)), all.is_held_by(&B)), (Ok(vec![]), true));
        assert_eq!((all.unregister(&B, Some(20)), all.kind), (Ok(vec![]), None));
    }

    #[test]
    fn a_reservation_is_taken_once_and_released_by_its_holder() {
        let mut reservation = held(Kind::WriteExclusive);
        assert_eq!(reservation.acquire(&A, 10, Kind::WriteExclusive), Ok(()));
        assert_eq!(reservation.acquire(&A, 10, Kind::ExclusiveAccess), Err(CONFLICT));
        assert_eq!(reservation.acquire(&B, 20, Kind::WriteExclusive), Err(CONFLICT));
        assert_eq!(reservation.acquire(&C, 30, Kind::WriteExclusive), Err(CONFLICT));
        let kind = Some(Kind::WriteExclusive);
        assert_eq!((reservation.release(&B, 20, kind), reservation.is_held_by(&A)), (Ok(vec![]), true));
        assert_eq!(reservation.release(&A, 11, kind), Err(CONFLICT));
        assert_eq!(reservation.release(&A, 10, Some(Kind::ExclusiveAccess)), Err(Failure::INVALID_FIELD));
        assert_eq!((reservation.release(&A, 10, kind), reservation.kind), (Ok(vec![]), None));
        let mut all = held(Kind::ExclusiveAccessAll);
        assert_eq!(all.acquire(&B, 20, Kind::ExclusiveAccessAll), Ok(()));
        let released = all.release(&B, 20, Some(Kind::ExclusiveAccessAll));
        assert_eq!((released, all.kind), (Ok(vec![(A, Notice::Released)]), None));
        let mut cleared = held(Kind::WriteExclusive);
        assert_eq!(cleared.clear(&C, 0), Err(CONFLICT));
        assert_eq!(cleared.clear(&B, 20), Ok(vec![(A, Notice::ReservationPreempted)]));
        assert_eq!((cleared.kind, cleared.registrants.len(), cleared.generation), (None, 0, 3));
    }

    #[test]
    fn a_preempting_host_removes_keys_and_takes_what_they_held() {
        let kind = Kind::ExclusiveAccess;
        let mut reservation = held(Kind::WriteExclusiveRegistrants);
        reservation.register(&C, 30).unwrap();
        assert_eq!(reservation.preempt(&B, 21, 10, kind), Err(CONFLICT), "another key");
        assert_eq!(reservation.preempt(&B, 20, 99, kind), Err(CONFLICT), "nobody has it");
        assert_eq!(reservation.preempt(&B, 20, 0, kind), Err(Failure::INVALID_FIELD));
        let (notices, removed) = reservation.preempt(&B, 20, 10, kind).unwrap();
        assert_eq!(notices, [(A, Notice::ReservationPreempted), (C, Notice::Released)]);
        assert_eq!((removed, reservation.is_held_by(&B), reservation.kind), (vec![A], true, Some(kind)));
        // one that does not hold it loses its registration
        let (notices, removed) = reservation.preempt(&B, 20, 30, kind).unwrap();
        assert_eq!((notices, removed), (vec![(C, Notice::RegistrationPreempted)], vec![C]));
        // the holder itself changes the kind
        let (notices, removed) = reservation.preempt(&B, 20, 20, Kind::WriteExclusiveAll).unwrap();
        assert_eq!((notices, removed, reservation.kind), (vec![], vec![], Some(Kind::WriteExclusiveAll)));
        // of what all hold, a key removes its registrants, and 0 everybody
        reservation.register(&A, 10).unwrap();
        reservation.register(&C, 30).unwrap();
        let (notices, _) = reservation.preempt(&A, 10, 30, kind).unwrap();
        assert_eq!(
            (notices, reservation.kind),
            (vec![(C, Notice::RegistrationPreempted)], Some(Kind::WriteExclusiveAll))
        );
        let (notices, removed) = reservation.preempt(&A, 10, 0, kind).unwrap();
        assert_eq!((notices, removed), (vec![(B, Notice::ReservationPreempted)], vec![B]));
        assert!(reservation.is_held_by(&A) && reservation.kind == Some(kind));
        // without a reservation it removes registrants alone
        let mut none = registered();
        assert_eq!(none.preempt(&A, 10, 20, kind).unwrap().1, [B]);
        assert_eq!(none.kind, None);
    }

    #[test]
    fn a_reservation_is_stored_as_it_is() {
        assert_eq!(size_of::<StoredReservation>(), 16 + 16 * 24);
        for kind in (1..=6).filter_map(Kind::of) {
            let reservation = Reservation { persists: true, ..held(kind) };
            let stored = reservation.stored(77);
            assert_eq!((Reservation::of(&stored), stored.identity.get()), (Some(reservation), 77));
            for (what, change) in [
                ("kind", (|stored| stored.kind = 7) as fn(&mut StoredReservation)),
                ("registrants", |stored| stored.registrants = 17),
                ("holder", |stored| stored.holder = 2),
                ("nobody", |stored| (stored.registrants, stored.holder) = (0, NO_HOLDER)),
            ] {
                let mut damaged = stored;
                change(&mut damaged);
                assert_eq!(Reservation::of(&damaged), None, "{what}, {kind:?}");
            }
        }
    }
}
