//! What papers print, as data: a TOML file next to each experiment has the figures of its tables, and the sentences
//! with the figures that they claim.
//!
//! The experiment declares a struct for its file and reads every field of it. A missing figure, or one without a field,
//! is a parse error; a field that nothing reads is a compiler error. So every figure in the files is printed somewhere,
//! and a test parses every file.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tantalum_report::{PaperClaim, Quantity, Span};

/// A sentence of a paper and its figure: `{ what = "...", factor = 2.0 }` or `{ what = "...", percent = [-45, -16] }`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(try_from = "Fields")]
pub(super) struct PrintedClaim {
    what: String,
    quantity: Quantity,
    paper: Span,
}

/// A [`PrintedClaim`] as its file has it, before it is checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    what: String,
    factor: Option<Span>,
    percent: Option<Span>,
}

impl TryFrom<Fields> for PrintedClaim {
    type Error = String;

    fn try_from(Fields { what, factor, percent }: Fields) -> Result<PrintedClaim, String> {
        let (quantity, paper) = match (factor, percent) {
            (Some(factor), None) => (Quantity::Factor, factor),
            (None, Some(percent)) => (Quantity::Percent, percent),
            _ => return Err(format!("\"{what}\" has to have either factor or percent")),
        };
        Ok(PrintedClaim { what, quantity, paper })
    }
}

impl PrintedClaim {
    /// The sentence with what was measured here.
    pub(super) fn beside(&self, ours: Span) -> PaperClaim {
        PaperClaim { what: self.what.clone(), quantity: self.quantity, paper: self.paper, ours }
    }
}

/// Parses a file that is part of the program, so that a mistake in it is a bug in the program.
pub(super) fn parse<T: DeserializeOwned>(file: &str, text: &str) -> T {
    toml::from_str(text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_claim_has_one_figure_or_two_and_one_quantity() {
        let claim = |text: &str| toml::from_str::<PrintedClaim>(text);
        let reads = claim("what = 'reads'\nfactor = 2").unwrap().beside(Span::one(3.0));
        assert_eq!(
            (reads.paper, reads.ours, reads.quantity),
            (Span::one(2.0), Span::one(3.0), Quantity::Factor)
        );
        let writes = claim("what = 'writes'\npercent = [-45, -16.5]").unwrap().beside(Span::one(0.0));
        assert_eq!((writes.paper, writes.quantity), (Span::new(-45.0, -16.5), Quantity::Percent));
        for wrong in [
            "what = 'reads'",
            "what = 'reads'\nfactor = 2\npercent = 3",
            "what = 'reads'\nfactor = [3, 2]",
            "what = 'reads'\nfactor = 2\nof = 'writes'",
            "factor = 2",
        ] {
            assert!(claim(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_file_of_figures_belongs_to_the_experiment_beside_it() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/experiments");
        let files = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let data: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect();
        assert!(data.len() >= 8, "{data:?}");
        for path in data {
            let experiment = fs::read_to_string(path.with_extension("rs")).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(experiment.contains(&format!("include_str!(\"{name}\")")), "nothing reads {name}");
        }
    }
}
