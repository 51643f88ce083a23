//! Tables: a row type, its columns with their descriptions, and the way to and from Arrow.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::cell::{Cell, Values};

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name in the file.
    pub name: &'static str,
    /// What it holds, with its unit.
    pub doc: &'static str,
    /// True if every recording has it: it was there when the first of this format was made.
    pub required: bool,
}

/// A row type of the dataset.
pub trait Table: Sized + Clone {
    /// Name: the file is `NAME.parquet`.
    const NAME: &'static str;
    /// The columns, in file order.
    const COLUMNS: &'static [Column];
    /// Arrow schema.
    fn schema() -> SchemaRef;
    /// Rows to columns.
    fn to_batch(rows: &[Self]) -> RecordBatch;
    /// Columns to rows, appended to `rows`; columns are found by name. `Err` names the column that is missing or wrong.
    fn read_batch(batch: &RecordBatch, rows: &mut Vec<Self>) -> Result<(), String>;
}

/// The values of a column; `missing` in all rows of a recording that was made before the column was added.
pub fn values<'a, T: Cell + 'a>(
    batch: &'a RecordBatch,
    name: &str,
    missing: Option<T>,
) -> Result<Values<'a, T>, String> {
    match (batch.column_by_name(name), missing) {
        (Some(array), _) => T::column(array).ok_or_else(|| format!("column {name} has another type")),
        (None, Some(missing)) => Ok(Box::new(move |_| missing.clone())),
        (None, None) => Err(format!("no column {name}")),
    }
}

/// Declares a row type and makes it a [`Table`]. Each field carries its description, which is also its documentation.
/// A column that is added later says `or` what it is in older recordings.
macro_rules! table {
    ($(#[$attr:meta])* $row:ident = $name:literal {
        $($field:ident : $ty:ty = $doc:literal $(or $missing:expr)?,)+
    }) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row {
            $(#[doc = $doc] pub $field: $ty,)+
        }

        impl $crate::table::Table for $row {
            const NAME: &'static str = $name;
            const COLUMNS: &'static [$crate::table::Column] =
                &[$($crate::table::Column {
                    name: stringify!($field),
                    doc: $doc,
                    required: concat!($(stringify!($missing))?).is_empty(),
                },)+];

            fn schema() -> arrow_schema::SchemaRef {
                std::sync::Arc::new(arrow_schema::Schema::new(vec![
                    $(arrow_schema::Field::new(
                        stringify!($field), <$ty as $crate::cell::Cell>::data_type(), false),)+
                ]))
            }

            fn to_batch(rows: &[Self]) -> arrow_array::RecordBatch {
                let columns = vec![
                    $(<$ty as $crate::cell::Cell>::array(rows.iter().map(|row| row.$field.clone()).collect()),)+
                ];
                arrow_array::RecordBatch::try_new(Self::schema(), columns)
                    .expect("the columns are made from the schema's own types")
            }

            fn read_batch(
                batch: &arrow_array::RecordBatch,
                rows: &mut Vec<Self>,
            ) -> Result<(), String> {
                $(
                    let missing: Option<$ty> = [$($missing,)?].into_iter().next();
                    let $field = $crate::table::values::<$ty>(batch, stringify!($field), missing)?;
                )+
                rows.reserve(batch.num_rows());
                rows.extend((0..batch.num_rows()).map(|row| Self { $($field: $field(row),)+ }));
                Ok(())
            }
        }
    };
}
pub(crate) use table;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{ALL_TABLES, FirstTouchRow};

    fn touch() -> FirstTouchRow {
        FirstTouchRow { time: 1, thread: 2, cpu: 3, ip: 4, addr: 5, access: 2, caller: 0 }
    }

    /// A batch of one row, without a column.
    fn without(name: &str) -> RecordBatch {
        let batch = FirstTouchRow::to_batch(&[touch()]);
        let keep: Vec<usize> = (0..batch.num_columns()).filter(|&n| batch.schema().field(n).name() != name).collect();
        batch.project(&keep).expect("columns that are there")
    }

    #[test]
    fn a_column_that_was_added_later_has_a_value_in_older_recordings() {
        let mut rows = Vec::new();
        FirstTouchRow::read_batch(&without("access"), &mut rows).expect("an older recording");
        assert_eq!(rows, [FirstTouchRow { access: 0, ..touch() }]);
    }

    #[test]
    fn a_column_that_every_recording_has_is_needed() {
        assert_eq!(FirstTouchRow::read_batch(&without("addr"), &mut Vec::new()), Err("no column addr".into()));
    }

    #[test]
    fn a_column_of_another_type_is_refused_even_if_it_could_be_missing() {
        let batch = without("access");
        let access: arrow_array::ArrayRef = std::sync::Arc::new(arrow_array::StringArray::from(vec!["write"]));
        let schema = batch.schema();
        let columns = schema.fields().iter().map(|field| field.name().clone()).zip(batch.columns().to_vec());
        let batch = RecordBatch::try_from_iter(columns.chain([("access".to_owned(), access)])).expect("equal lengths");
        let read = FirstTouchRow::read_batch(&batch, &mut Vec::new());
        assert_eq!(read, Err("column access has another type".into()));
    }

    /// A column that is added without `or` makes all recordings unreadable that exist.
    #[test]
    fn no_column_is_needed_that_the_first_recordings_lack() {
        const FIRST: [(&str, usize); 11] = [
            ("samples", 10),
            ("objects", 11),
            ("sites", 10),
            ("frames", 3),
            ("threads", 12),
            ("processes", 8),
            ("modules", 9),
            ("first_touch", 5),
            ("page_nodes", 4),
            ("markers", 3),
            ("code", 8),
        ];
        /// Tables that came later, and what says in `meta.json` that a recording has them.
        const LATER: [(&str, &str); 2] = [("bases", "sampler.counted"), ("trace", "sampler.trace")];
        let needed = |columns: &[Column]| columns.iter().filter(|column| column.required).count();
        let later = |name: &str| LATER.iter().any(|(later, _)| *later == name);
        let first = ALL_TABLES.iter().filter(|table| !later(table.name));
        let now: Vec<(&str, usize)> = first.map(|table| (table.name, needed(table.columns))).collect();
        assert_eq!(now, FIRST);
    }
}
