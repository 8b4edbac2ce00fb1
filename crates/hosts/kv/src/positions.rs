//! Keys of a namespace by their positions among those that exist, in the order in which the drive lists them or, in an ordered
//! namespace, in that of the keys.
//!
//! Positions are as they are when the steps before are in place: keys that these deleted are not counted. A checksum of the keys
//! tells if what is found there is something else.

use std::ops::Bound;

use tantalum::{Key, NamespaceId};
use tantalum_canaries::guard;
use tantalum_image::{checksum_of, checksum_with};

use crate::failure::Failure;
use crate::record::{Bytes, Order};
use crate::record_store::Listing;
use crate::tree::page;

/// Keys read at once.
const PAGE_KEYS: usize = 4096;

/// Positions of keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Positions {
    /// Keys before these that stay.
    before: u64,
    /// Keys from there to the last one that is meant.
    count: u32,
    /// A bit for each; none if all are meant.
    bits: Vec<u8>,
    checksum: u32,
}

/// How far a namespace has been read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    namespace: Option<NamespaceId>,
    /// The last key that was read.
    last: Option<Bytes>,
    /// Keys that were read and stay.
    left: u64,
}

impl Positions {
    /// Those of keys, which are in the namespace's order, and not necessarily there.
    pub fn of(walk: &mut Walk<'_, impl Listing>, keys: &[Bytes]) -> Result<Positions, Failure> {
        debug_assert!(
            keys.is_sorted_by(|a, b| walk.spot(a.clone()) < walk.spot(b.clone())),
            "keys of {:?} to be deleted are out of order",
            walk.namespace
        );
        let (mut before, mut marks) = (None, Vec::new());
        let mut found = Vec::new();
        for key in keys {
            let spot = walk.spot(key.clone());
            while walk.peek()?.is_some_and(|next| *next < spot) {
                walk.stays();
                marks.extend(before.map(|_| false));
            }
            if walk.peek()? == Some(&spot) {
                before.get_or_insert(walk.cursor.left);
                walk.goes();
                marks.push(true);
                found.push(key);
            }
        }
        let mut bits = Vec::new();
        if marks.contains(&false) {
            let byte =
                |marks: &[bool]| marks.iter().zip(0..).map(|(mark, bit)| u8::from(*mark) << bit).sum::<u8>();
            bits = marks.chunks(8).map(byte).collect();
        }
        let meant = marks.iter().filter(|is_meant| **is_meant).count();
        assert_eq!(meant, found.len(), "positions that are meant, and keys, of {}", keys.len());
        let checksum = checksum_of_keys(found.into_iter());
        Ok(Positions {
            before: before.unwrap_or(walk.cursor.left),
            count: marks.len() as u32,
            bits,
            checksum,
        })
    }

    /// The keys. `cursor` is where the search for the positions before these ended.
    pub fn find(
        &self,
        source: &impl Listing,
        namespace: NamespaceId,
        order: Order,
        cursor: &mut Cursor,
    ) -> Result<Vec<Bytes>, Failure> {
        let mut walk = Walk::from(source, namespace, order, cursor.clone());
        let missing = || Failure::interrupted(namespace, "keys that it deletes are not there");
        while walk.cursor.left < self.before {
            walk.peek()?.ok_or_else(missing)?;
            walk.stays();
        }
        let mut keys = Vec::new();
        for at in 0..self.count as usize {
            let key = walk.peek()?.ok_or_else(missing)?.bytes.clone();
            let is_meant = self.bits.get(at / 8).is_none_or(|byte| byte >> (at % 8) & 1 == 1);
            if is_meant {
                keys.push(key);
                walk.goes();
            } else {
                walk.stays();
            }
        }
        if guard!(OtherKeysDeleted, checksum_of_keys(keys.iter()) != self.checksum) {
            return Err(Failure::interrupted(namespace, "where it deletes keys there are others"));
        }
        *cursor = walk.cursor;
        Ok(keys)
    }

    /// Keys before these (8 bytes), checksum (4), count (4), a bit for each.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.before.to_le_bytes());
        bytes.extend_from_slice(&self.checksum.to_le_bytes());
        bytes.extend_from_slice(&self.count.to_le_bytes());
        bytes.extend_from_slice(&self.bits);
    }

    pub fn decode(bytes: &[u8]) -> Option<Positions> {
        let (before, rest) = bytes.split_first_chunk()?;
        let (checksum, rest) = rest.split_first_chunk()?;
        let (count, bits) = rest.split_first_chunk()?;
        let count = u32::from_le_bytes(*count);
        let is_whole = bits.is_empty() || bits.len() == (count as usize).div_ceil(8);
        is_whole.then(|| Positions {
            before: u64::from_le_bytes(*before),
            count,
            bits: bits.to_vec(),
            checksum: u32::from_le_bytes(*checksum),
        })
    }
}

fn checksum_of_keys<'a>(keys: impl Iterator<Item = &'a Bytes>) -> u32 {
    keys.fold(checksum_of(&[]), |sum, key| {
        checksum_with(checksum_with(sum, &(key.len() as u16).to_le_bytes()), key)
    })
}

/// A key's place in the order of its namespace: by hash, or by the key alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Spot {
    hash: u64,
    pub bytes: Bytes,
}

impl Spot {
    pub fn of(order: Order, bytes: Bytes) -> Spot {
        let hash = match order {
            Order::Hashed => Key::new(&bytes).map_or(0, |key| key.listing_order().0),
            Order::Ordered => 0,
        };
        Spot { hash, bytes }
    }
}

/// The keys of a namespace, in its order.
pub(crate) struct Walk<'a, S> {
    source: &'a S,
    namespace: NamespaceId,
    order: Order,
    cursor: Cursor,
    page: std::iter::Peekable<std::vec::IntoIter<Spot>>,
    is_all: bool,
}

impl<'a, S: Listing> Walk<'a, S> {
    /// All of them.
    pub fn new(source: &'a S, namespace: NamespaceId, order: Order) -> Walk<'a, S> {
        Walk::from(source, namespace, order, Cursor::default())
    }

    /// Those behind a cursor, or all of them if it is in another namespace.
    fn from(source: &'a S, namespace: NamespaceId, order: Order, cursor: Cursor) -> Walk<'a, S> {
        let cursor = match cursor.namespace == Some(namespace) {
            true => cursor,
            false => Cursor { namespace: Some(namespace), ..Cursor::default() },
        };
        Walk { source, namespace, order, cursor, page: Vec::new().into_iter().peekable(), is_all: false }
    }

    fn spot(&self, bytes: Bytes) -> Spot {
        Spot::of(self.order, bytes)
    }

    fn peek(&mut self) -> Result<Option<&Spot>, Failure> {
        if self.page.peek().is_none() && !self.is_all {
            let page = match self.order {
                Order::Hashed => self.listed()?,
                Order::Ordered => self.in_tree()?,
            };
            self.page = page.into_iter().peekable();
        }
        Ok(self.page.peek())
    }

    /// The next key stays where it is.
    fn stays(&mut self) {
        self.goes();
        self.cursor.left += 1;
    }

    /// The next key is to be deleted.
    fn goes(&mut self) {
        let next = self.page.next();
        assert!(next.is_some(), "a walk goes beyond the last key of {:?}: {:?}", self.namespace, self.cursor);
        self.cursor.last = next.map(|spot| spot.bytes);
    }

    fn listed(&mut self) -> Result<Vec<Spot>, Failure> {
        let last = self.cursor.last.as_ref().map(|last| Key::new(last).expect("the drive listed it"));
        let keys = self.source.list(self.namespace, last.as_ref(), PAGE_KEYS)?;
        self.is_all = keys.len() < PAGE_KEYS;
        // it begins with the last one, if that is still there
        let new = keys.into_iter().filter(|key| Some(*key) != last);
        Ok(new.map(|key| self.spot(key.as_bytes().into())).collect())
    }

    fn in_tree(&mut self) -> Result<Vec<Spot>, Failure> {
        let namespace = self.namespace;
        let from = self.cursor.last.as_ref().map_or(Bound::Unbounded, |last| Bound::Excluded(&last[..]));
        let found = page(self.source, namespace, (from, Bound::Unbounded), false, PAGE_KEYS)?;
        if let Some(gap) = found.gap {
            return Err(Failure::Lost { namespace, gap });
        }
        self.is_all = found.is_all;
        Ok(found.entries.iter().map(|entry| self.spot(found.key(entry).into())).collect())
    }
}
