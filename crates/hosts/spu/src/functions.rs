//! The names of a module's functions, from its name section, for reports of faults.

use std::collections::BTreeMap;
use std::fmt;

use wasmparser::{BinaryReaderError, KnownCustom, Name, NameSectionReader, Parser, Payload};

/// The longest name that is reported, in characters.
const NAME_CHARACTERS: usize = 80;

/// A function of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its index among the module's functions; imports come first.
    pub number: u32,
    /// Its name, if the module has names. Control characters are replaced.
    pub name: Option<String>,
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "`{name}`"),
            None => write!(f, "function {}, which has no name in the module", self.number),
        }
    }
}

/// The names of a module's functions.
#[derive(Clone, Debug, Default)]
pub(crate) struct FunctionNames(BTreeMap<u32, String>);

impl FunctionNames {
    /// The names in a valid module. A damaged name section counts as none.
    pub fn of(module: &[u8]) -> FunctionNames {
        for payload in Parser::new(0).parse_all(module) {
            if let Ok(Payload::CustomSection(section)) = payload
                && let KnownCustom::Name(names) = section.as_known()
            {
                return FunctionNames(read(names).unwrap_or_default());
            }
        }
        FunctionNames::default()
    }

    /// The name of a function, if it is known.
    pub fn name(&self, number: u32) -> Option<&str> {
        self.0.get(&number).map(String::as_str)
    }

    /// A function, with its name.
    pub fn function(&self, number: u32) -> Function {
        Function { number, name: self.name(number).map(str::to_owned) }
    }
}

fn read(section: NameSectionReader<'_>) -> Result<BTreeMap<u32, String>, BinaryReaderError> {
    let mut names = BTreeMap::new();
    for part in section {
        if let Name::Function(functions) = part? {
            for naming in functions {
                let naming = naming?;
                names.insert(naming.index, harmless(naming.name));
            }
        }
    }
    Ok(names)
}

/// A name made safe to print: anybody may have chosen it.
fn harmless(name: &str) -> String {
    let shown =
        |character: char| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
    name.chars().take(NAME_CHARACTERS).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_told_by_its_name_or_its_number() {
        let module =
            wat::parse_str("(module (import \"tantalum\" \"origin\" (func $o (result i32))) (func $divide))");
        let module = module.unwrap();
        let names = FunctionNames::of(&module);
        assert_eq!(names.function(1).to_string(), "`divide`");
        assert_eq!(names.function(2).to_string(), "function 2, which has no name in the module");
        assert_eq!(names.name(0), Some("o"));
    }

    #[test]
    fn a_name_is_short_and_controls_no_terminal() {
        assert_eq!(harmless("a\u{1b}[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(harmless(&"x".repeat(1000)).len(), NAME_CHARACTERS);
    }
}
