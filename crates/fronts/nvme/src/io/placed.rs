//! Where a write's data are placed: with a reclaim unit handle of its namespace (Base 2.1, sections 8.1.8.4 and 8.1.10).

use tantalum::Handle;

use crate::failure::Failure;
use crate::wire::command::Submission;
use crate::wire::placement::directive;

/// Where a write's data are placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Placed {
    /// The placement identifier that the command names: as there is one reclaim group, a placement handle.
    identifier: Option<u16>,
    /// The reclaim unit handle; none on a drive without.
    pub handle: Option<Handle>,
    /// Whether the namespace does not have that identifier, so that the first handle is taken.
    is_unknown: bool,
}

impl Placed {
    /// By a command's directive, whose type is in bits 23:20 of dword 12, as far as they are those of its `mask`.
    pub fn of(command: &Submission, mask: u32) -> Result<Placed, Failure> {
        match (command.dword(12) >> 20 & mask) as u8 {
            directive::IDENTIFY => Ok(Placed::default()),
            directive::DATA_PLACEMENT => {
                Ok(Placed { identifier: Some((command.dword(13) >> 16) as u16), ..Placed::default() })
            }
            _ => Err(Failure::INVALID_FIELD),
        }
    }

    /// In a namespace with these handles. What names none has the first, and so has what names one that is not there.
    pub fn within(self, handles: &[Handle]) -> Result<Placed, Failure> {
        match self.identifier {
            Some(_) if handles.is_empty() => Err(Failure::INVALID_FIELD),
            identifier => {
                let named = handles.get(usize::from(identifier.unwrap_or(0))).copied();
                let is_unknown = identifier.is_some() && named.is_none();
                Ok(Placed { handle: named.or(handles.first().copied()), is_unknown, ..self })
            }
        }
    }

    /// Whether the command names an identifier.
    pub fn is_named(&self) -> bool {
        self.identifier.is_some()
    }

    /// The identifier that the namespace does not have.
    pub fn unknown(&self) -> Option<u16> {
        self.identifier.filter(|_| self.is_unknown)
    }
}
