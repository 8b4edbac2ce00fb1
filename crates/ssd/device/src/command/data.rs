//! How a command holds its data and the places for its results: borrowed from whoever waits for it, or its own.

use std::marker::PhantomData;

use tantalum_ftl::{KvRecord, Lpn, Metadata, ShareRange};
use tantalum_nand::{Fetches, Fills};

/// The types of a command's data and results.
pub trait Data {
    /// Bytes to write.
    type Bytes;
    /// The ranges of a share.
    type Ranges;
    /// Scattered units to write.
    type Writes;
    /// Records to put.
    type Records;
    /// Metadata to write.
    type Metadata;
    /// Where any number of units that are read go.
    type Units;
    /// Where any other result goes.
    type Place<T: ?Sized + 'static>;
    /// Units that the host fetches itself.
    type Fetches;
    /// Buffers that the host has filled.
    type Fills;
}

/// Data and places that are borrowed: [`Command`](super::Command).
#[derive(Debug)]
pub struct Borrowed<'a>(PhantomData<&'a mut ()>);

impl<'a> Data for Borrowed<'a> {
    type Bytes = &'a [u8];
    type Ranges = &'a [ShareRange];
    type Writes = &'a [(Lpn, &'a [u8])];
    type Records = &'a [KvRecord<'a>];
    type Metadata = &'a Metadata;
    type Units = &'a mut [u8];
    type Place<T: ?Sized + 'static> = &'a mut T;
    type Fetches = &'a mut Fetches;
    type Fills = &'a mut Fills;
}
