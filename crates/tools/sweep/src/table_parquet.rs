//! The same table as Apache Parquet, with types: whole numbers, numbers, text.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use tantalum_report::MissingFeature;

use crate::error::SweepError;
use crate::run::Value;
use crate::table::{Column, ColumnType, Table};

/// An error in a build that writes no Parquet; this one does.
pub fn require_parquet() -> Result<(), MissingFeature> {
    Ok(())
}

/// Refuses a folder whose table would be out of date: none, as it is written again.
pub(crate) fn check(_: &Path) -> Result<(), SweepError> {
    Ok(())
}

/// Writes the table to a file, which appears atomically. Returns the file.
pub(crate) fn write(table: &Table, path: PathBuf) -> Result<Option<PathBuf>, SweepError> {
    let beside = path.with_extension("parquet.new");
    let file = File::create(&beside).map_err(SweepError::file(&beside))?;
    written(table, file.try_clone().map_err(SweepError::file(&beside))?)
        .map_err(|error| SweepError::Parquet { path: path.clone(), error })?;
    file.sync_all().map_err(SweepError::file(&beside))?;
    std::fs::rename(&beside, &path).map_err(SweepError::file(&path))?;
    Ok(Some(path))
}

fn written(table: &Table, file: File) -> Result<(), ParquetError> {
    let fields =
        table.columns.iter().map(|column| field(column).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
    let schema = Type::group_type_builder("sweep").with_fields(fields).build()?;
    let mut writer =
        SerializedFileWriter::new(file, Arc::new(schema), Arc::new(WriterProperties::default()))?;
    let mut group = writer.next_row_group()?;
    for column in &table.columns {
        let Some(mut to) = group.next_column()? else { break };
        match column.kind {
            ColumnType::Integer => put::<Int64Type>(&mut to, column, integer)?,
            ColumnType::Number => put::<DoubleType>(&mut to, column, number)?,
            ColumnType::Text => put::<ByteArrayType>(&mut to, column, text)?,
        }
        to.close()?;
    }
    group.close()?;
    writer.close().map(drop)
}

fn field(column: &Column) -> Result<Type, ParquetError> {
    let physical = match column.kind {
        ColumnType::Integer => Physical::INT64,
        ColumnType::Number => Physical::DOUBLE,
        ColumnType::Text => Physical::BYTE_ARRAY,
    };
    let logical = (column.kind == ColumnType::Text).then_some(LogicalType::String);
    Type::primitive_type_builder(&column.name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical)
        .build()
}

/// Writes the values that exist, and which of them do.
fn put<T: DataType>(
    to: &mut SerializedColumnWriter<'_>,
    column: &Column,
    of: fn(&Value) -> T::T,
) -> Result<(), ParquetError> {
    let values: Vec<T::T> = column.values.iter().flatten().map(of).collect();
    let there: Vec<i16> = column.values.iter().map(|value| i16::from(value.is_some())).collect();
    to.typed::<T>().write_batch(&values, Some(&there), None).map(drop)
}

fn integer(value: &Value) -> i64 {
    match value {
        Value::Integer(number) => *number,
        _ => 0,
    }
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Integer(number) => *number as f64,
        Value::Number(number) => *number,
        Value::Text(_) => f64::NAN,
    }
}

fn text(value: &Value) -> ByteArray {
    ByteArray::from(value.to_string().into_bytes())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field;

    use super::*;
    use crate::table::Line;
    use crate::table::tests::run;

    #[test]
    fn what_is_written_is_read_again_with_its_types() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("table.parquet");
        let runs = [run(0, Value::Integer(5)), run(1, Value::Integer(6))];
        let row = |words: Option<&str>, figure| {
            let words = words.map(|words| Value::Text(words.to_owned()));
            vec![("words".to_owned(), words), ("figure".to_owned(), figure)]
        };
        let line = |run: usize, figures| Line { run: &runs[run], failed: None, figures };
        let done = vec![
            line(0, row(Some("as in the trace"), Some(Value::Number(0.25)))),
            line(1, row(None, Some(Value::Integer(3)))),
        ];
        write(&Table::of(done), path.clone()).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let rows: Vec<Vec<(String, Field)>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| {
                row.unwrap().get_column_iter().map(|(name, field)| (name.clone(), field.clone())).collect()
            })
            .collect();
        let field =
            |row: usize, name: &str| rows[row].iter().find(|(column, _)| column == name).unwrap().1.clone();
        assert_eq!((field(0, "axis"), field(1, "seed")), (Field::Long(5), Field::Long(7)));
        assert_eq!((field(0, "figure"), field(1, "figure")), (Field::Double(0.25), Field::Double(3.0)));
        assert_eq!(
            (field(0, "words"), field(1, "words")),
            (Field::Str("as in the trace".to_owned()), Field::Null)
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "something was left beside it");
    }
}
