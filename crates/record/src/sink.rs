//! Rows on their way to the dataset: collected, and written as parts every now and then.

use std::path::Path;

use numamma_trace::{
    DatasetWriter, FirstTouchRow, LossKind, Losses, MarkerRow, ObjectRow, PageNodeRow, PartSampleRow, TraceError,
    TraceRow,
};

/// Rows that make a part before its time is up.
const PART_ROWS: usize = 500_000;

/// Tables that grow while the program runs.
#[derive(Debug)]
pub struct Sink {
    writer: DatasetWriter,
    pub samples: Vec<PartSampleRow>,
    pub touches: Vec<FirstTouchRow>,
    pub trace: Vec<TraceRow>,
    pub objects: Vec<ObjectRow>,
    pub page_nodes: Vec<PageNodeRow>,
    pub markers: Vec<MarkerRow>,
    /// Numbers handed out to objects.
    next_object: i32,
    part: u32,
    /// The first failure to write. From then on rows are counted as lost, and the program goes on.
    failed: Option<TraceError>,
    pub lost: u64,
}

impl Sink {
    /// A sink into a new dataset.
    pub fn new(writer: DatasetWriter) -> Self {
        Self {
            writer,
            samples: Vec::new(),
            touches: Vec::new(),
            trace: Vec::new(),
            objects: Vec::new(),
            page_nodes: Vec::new(),
            markers: Vec::new(),
            next_object: 0,
            part: 0,
            failed: None,
            lost: 0,
        }
    }

    /// The dataset.
    pub fn writer(&self) -> &DatasetWriter {
        &self.writer
    }

    /// Directory of the dataset.
    pub fn dir(&self) -> &Path {
        self.writer.dir()
    }

    /// Adds an object and numbers it.
    pub fn object(&mut self, mut row: ObjectRow) -> i32 {
        row.object = self.next_object;
        self.next_object += 1;
        let number = row.object;
        self.objects.push(row);
        number
    }

    /// Takes back an object that was added and is not written yet.
    pub fn take_back(&mut self, number: i32) {
        // Numbers ascend.
        if let Ok(at) = self.objects.binary_search_by_key(&number, |row| row.object) {
            self.objects.remove(at);
        }
    }

    /// Numbers objects that are not final yet. The numbers are not used again.
    pub fn number(&mut self, rows: &mut [ObjectRow]) {
        for row in rows {
            row.object = self.next_object;
            self.next_object += 1;
        }
    }

    /// True if enough has been collected to write it out at once.
    pub fn is_full(&self) -> bool {
        let lengths =
            [self.samples.len(), self.touches.len(), self.trace.len(), self.objects.len(), self.markers.len()];
        lengths.into_iter().any(|length| length >= PART_ROWS)
    }

    /// Writes what was collected as one part of each table.
    pub fn flush(&mut self) {
        let part = self.part;
        self.part += 1;
        macro_rules! flush {
            ($($table:ident),+) => {$(
                if !self.$table.is_empty() {
                    let written = match &self.failed {
                        None => self.writer.append(&self.$table, part),
                        Some(_) => Ok(()),
                    };
                    if let Err(error) = written {
                        self.failed = Some(error);
                    }
                    if self.failed.is_some() {
                        self.lost += self.$table.len() as u64;
                    }
                    self.$table.clear();
                }
            )+};
        }
        flush!(samples, touches, trace, objects, page_nodes, markers);
    }

    /// Notes what was lost, and gives the first failure.
    pub fn close(self, losses: &mut Losses) -> (DatasetWriter, Option<TraceError>) {
        losses.add(LossKind::NotWritten, self.lost);
        (self.writer, self.failed)
    }
}
