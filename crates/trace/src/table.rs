//! Tables: a row type, its columns with their descriptions, and the way to and from Arrow.

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;

/// One column of a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name in the file.
    pub name: &'static str,
    /// What it holds, with its unit.
    pub doc: &'static str,
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

/// Declares a row type and makes it a [`Table`]. Each field carries its description, which is also its documentation.
macro_rules! table {
    ($(#[$attr:meta])* $row:ident = $name:literal { $($field:ident : $ty:ty = $doc:literal,)+ }) => {
        $(#[$attr])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $row {
            $(#[doc = $doc] pub $field: $ty,)+
        }

        impl $crate::table::Table for $row {
            const NAME: &'static str = $name;
            const COLUMNS: &'static [$crate::table::Column] =
                &[$($crate::table::Column { name: stringify!($field), doc: $doc },)+];

            fn schema() -> arrow::datatypes::SchemaRef {
                std::sync::Arc::new(arrow::datatypes::Schema::new(vec![
                    $(arrow::datatypes::Field::new(
                        stringify!($field), <$ty as $crate::cell::Cell>::data_type(), false),)+
                ]))
            }

            fn to_batch(rows: &[Self]) -> arrow::record_batch::RecordBatch {
                let columns = vec![
                    $(<$ty as $crate::cell::Cell>::array(rows.iter().map(|row| row.$field.clone()).collect()),)+
                ];
                arrow::record_batch::RecordBatch::try_new(Self::schema(), columns)
                    .expect("the columns are made from the schema's own types")
            }

            fn read_batch(
                batch: &arrow::record_batch::RecordBatch,
                rows: &mut Vec<Self>,
            ) -> Result<(), String> {
                $(
                    let array = batch.column_by_name(stringify!($field))
                        .ok_or_else(|| format!("no column {}", stringify!($field)))?;
                    let $field = <$ty as $crate::cell::Cell>::column(array)
                        .ok_or_else(|| format!("column {} has another type", stringify!($field)))?;
                )+
                rows.reserve(batch.num_rows());
                rows.extend((0..batch.num_rows()).map(|row| Self { $($field: $field(row),)+ }));
                Ok(())
            }
        }
    };
}
pub(crate) use table;
