//! Changes of attributes.

use tantalum_filesystem::{Attributes, FileId, Metadata, MetadataChange, Outcome, SetMode};

use super::Recorder;
use crate::event::Event;
use crate::operation::{Attribute, FileNumber, Operation};

impl Attributes for Recorder {
    fn metadata(&mut self, file: FileId) -> Outcome<Metadata> {
        self.inner.metadata(file)
    }

    fn change_metadata(&mut self, file: FileId, change: &MetadataChange) -> Outcome<()> {
        let begun = self.begins();
        self.inner.change_metadata(file, change)?;
        let done = |operation: &dyn Fn(FileNumber) -> Operation| {
            self.record(begun, |numbers| Event::Done(operation(numbers.number(file))));
        };
        if let Some(size) = change.size {
            done(&|number| Operation::Resize(number, size));
        }
        if let Some(permissions) = change.permissions {
            done(&|number| Operation::Change(number, Attribute::Permissions(permissions)));
        }
        if change.owner.is_some() || change.group.is_some() {
            done(&|number| Operation::Change(number, Attribute::Owner(change.owner, change.group)));
        }
        if change.accessed.is_some() || change.modified.is_some() || change.changed.is_some() {
            self.record(begun, |numbers| Event::Touched(numbers.number(file)));
        }
        Ok(())
    }

    fn extended_attribute(&mut self, file: FileId, name: &[u8]) -> Outcome<Vec<u8>> {
        self.inner.extended_attribute(file, name)
    }

    fn extended_attributes(&mut self, file: FileId) -> Outcome<Vec<Vec<u8>>> {
        self.inner.extended_attributes(file)
    }

    fn set_extended_attribute(
        &mut self,
        file: FileId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Outcome<()> {
        let begun = self.begins();
        self.inner.set_extended_attribute(file, name, value, mode)?;
        let attribute = || Attribute::Extended(name.to_vec(), Some(value.to_vec()));
        self.record(begun, |numbers| Event::Done(Operation::Change(numbers.number(file), attribute())));
        Ok(())
    }

    fn remove_extended_attribute(&mut self, file: FileId, name: &[u8]) -> Outcome<()> {
        let begun = self.begins();
        self.inner.remove_extended_attribute(file, name)?;
        let attribute = || Attribute::Extended(name.to_vec(), None);
        self.record(begun, |numbers| Event::Done(Operation::Change(numbers.number(file), attribute())));
        Ok(())
    }
}
