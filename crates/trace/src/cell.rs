//! How a Rust value becomes a column: one implementation per column type.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, Int32Array, Int64Array, StringArray};
use arrow_schema::DataType;

/// A value that a table can hold.
pub trait Cell: Sized + Clone {
    /// Arrow type of the column.
    fn data_type() -> DataType;
    /// All values of a column as an array.
    fn array(values: Vec<Self>) -> ArrayRef;
    /// A typed view of `array`, or `None` if it has another type or holds nulls.
    fn column(array: &dyn Array) -> Option<Values<'_, Self>>;
}

/// The value in each row.
pub type Values<'a, T> = Box<dyn Fn(usize) -> T + 'a>;

macro_rules! number {
    ($rust:ty, $variant:ident, $array:ident, $primitive:ident) => {
        impl Cell for $rust {
            fn data_type() -> DataType {
                DataType::$variant
            }
            fn array(values: Vec<Self>) -> ArrayRef {
                Arc::new($array::from(values))
            }
            fn column(array: &dyn Array) -> Option<Values<'_, Self>> {
                let values = array.as_primitive_opt::<$primitive>().filter(|a| a.null_count() == 0)?.values();
                Some(Box::new(move |row| values[row]))
            }
        }
    };
}

number!(i64, Int64, Int64Array, Int64Type);
number!(i32, Int32, Int32Array, Int32Type);
number!(f64, Float64, Float64Array, Float64Type);
number!(f32, Float32, Float32Array, Float32Type);

impl Cell for String {
    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn array(values: Vec<Self>) -> ArrayRef {
        Arc::new(StringArray::from(values))
    }
    fn column(array: &dyn Array) -> Option<Values<'_, Self>> {
        let values = array.as_string_opt::<i32>().filter(|a| a.null_count() == 0)?;
        Some(Box::new(move |row| values.value(row).to_owned()))
    }
}
