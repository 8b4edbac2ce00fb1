//! How a trace is read: the reading options of `tantalum replay`, as texts under the same names.

use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tantalum_replay::{ColumnNames, Columns, OffsetUnit, OperationNames, Source};

/// How a trace is read. What is not given has the default of `tantalum replay`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Reading {
    /// Its format; `None` to detect it.
    pub format: Option<String>,
    /// How blkparse printed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blkparse_format: Option<String>,
    /// The names of its columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<String>,
    /// The unit of the column `time`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_unit: Option<String>,
    /// The unit of the columns `offset` and `units`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_unit: Option<String>,
    /// What stands in the column `op`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<String>,
    /// Which events of blktrace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Which volumes; all if empty.
    pub volumes: Vec<String>,
    /// The maximum number of requests.
    pub requests: Option<u64>,
}

/// A setting that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unusable {
    pub key: &'static str,
    pub value: String,
    pub expected: String,
}

/// A setting with its name.
type Given<'a> = (&'static str, &'a Option<String>);

impl Reading {
    /// What `tantalum replay` would read with these options.
    pub(crate) fn source(&self, path: &Path) -> Result<Source, Unusable> {
        let columns = self.columns()?;
        let blkparse_format = parsed(("blkparse_format", &self.blkparse_format))?;
        let format = parsed(("format", &self.format))?;
        let ways = [
            ("columns", &self.columns),
            ("blkparse_format", &self.blkparse_format),
            ("format", &self.format),
        ];
        let given: Vec<Given<'_>> = ways.into_iter().filter(|(_, value)| value.is_some()).collect();
        if let [first, (other, _), ..] = given[..] {
            return Err(unusable(first, format!("it says what {other} says, too: give one of them")));
        }
        Ok(Source {
            format,
            columns,
            blkparse_format,
            action: parsed(("action", &self.action))?,
            volumes: self.volumes.clone(),
            most_requests: self.requests,
            ..Source::of(path)
        })
    }

    fn columns(&self) -> Result<Option<Columns>, Unusable> {
        let given = ("columns", &self.columns);
        let time = ("time_unit", &self.time_unit);
        let offset = ("offset_unit", &self.offset_unit);
        let operations = ("operations", &self.operations);
        let Some(names) = parsed::<ColumnNames>(given)? else {
            let alone = [time, offset, operations].into_iter().find(|(_, value)| value.is_some());
            return alone.map_or(Ok(None), |alone| Err(unusable(alone, "it needs columns")));
        };
        let offset = parsed::<OffsetUnit>(offset)?.unwrap_or_default();
        let operations = parsed::<OperationNames>(operations)?.unwrap_or_default();
        let columns = Columns::new(names, parsed(time)?, offset, operations);
        columns.map(Some).map_err(|expected| unusable(given, expected))
    }
}

fn parsed<T: FromStr<Err = String>>(given: Given<'_>) -> Result<Option<T>, Unusable> {
    given.1.as_deref().map(str::parse).transpose().map_err(|expected| unusable(given, expected))
}

fn unusable((key, value): Given<'_>, expected: impl Into<String>) -> Unusable {
    Unusable { key, value: value.clone().unwrap_or_default(), expected: expected.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs that were kept before there were more options are found again.
    #[test]
    fn options_that_are_not_given_leave_no_trace_in_a_run() {
        let reading = Reading { format: Some("msr".to_owned()), requests: Some(5), ..Reading::default() };
        let text = serde_json::to_string(&reading).unwrap();
        assert_eq!(text, r#"{"format":"msr","volumes":[],"requests":5}"#);
        assert_eq!(serde_json::from_str::<Reading>(&text).unwrap(), reading);
    }
}
