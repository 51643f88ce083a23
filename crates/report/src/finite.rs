//! Numbers that JSON can hold: it has neither NaN nor infinity, and `null` where a number is documented breaks readers.

use numamma_findings::{
    Accesses, Advice, Controls, Cost, Detail, Instance, InstancePattern, Line, LineSharing, MemoryAccesses, Object,
    Overhead, Page, Pattern, Remote, Run, Sampler, Thread, ThreadShare, Trace, TraceWindows, Waiting, WaitingPlace,
};

use crate::rows::finite;

/// Replaces numbers that are none by 0, and errors that are none by `None`.
pub trait Finite: Sized {
    /// Replaces them in place.
    fn make_finite(&mut self);

    /// The same with all numbers finite.
    fn made_finite(mut self) -> Self {
        self.make_finite();
        self
    }
}

impl Finite for f64 {
    fn make_finite(&mut self) {
        *self = finite(*self);
    }
}

impl<T: Finite> Finite for Option<T> {
    fn make_finite(&mut self) {
        self.iter_mut().for_each(Finite::make_finite);
    }
}

impl<T: Finite> Finite for Vec<T> {
    fn make_finite(&mut self) {
        self.iter_mut().for_each(Finite::make_finite);
    }
}

/// Implements [`Finite`] for a struct: fields that hold numbers, and fields that hold errors.
macro_rules! finite {
    ($name:ident { $($field:ident),* } $(errors { $($error:ident),* })?) => {
        impl Finite for $name {
            fn make_finite(&mut self) {
                $(self.$field.make_finite();)*
                $($(self.$error = self.$error.filter(|error| error.is_finite());)*)?
            }
        }
    };
}

finite!(Run { wall_s, started_unix_s });
finite!(Sampler { rate_hz, overhead_estimate, overhead, controls, trace_windows, trace });
finite!(Overhead { thread_s, ticks_s, held_s, hooks_s, recorder_s });
finite!(TraceWindows { stopped_s, factor });
finite!(Trace { after_s } errors { for_s });
finite!(Controls { after_s } errors { for_s });
finite!(Cost { seconds, share } errors { error });
finite!(Accesses { reads, writes, share } errors { error, basis });
finite!(Remote { share } errors { reads, writes, error });
finite!(ThreadShare { cost_share } errors { access_share, error });
finite!(MemoryAccesses { reads, writes, total, share });
finite!(Pattern { confidence, main_share });
finite!(InstancePattern { share });
finite!(Advice { share });
finite!(LineSharing { cost_share });
finite!(Instance { start_s, cost_s, threads, pattern } errors { end_s });
finite!(Thread { start_s, cost_s } errors { end_s, cost_error, reads, writes, memory });
finite!(Line { cost, accesses });
finite!(Waiting { seconds, share, places });
finite!(WaitingPlace { seconds, share });

impl Finite for Object {
    fn make_finite(&mut self) {
        self.cost.make_finite();
        self.accesses.make_finite();
        self.memory.make_finite();
        self.remote.make_finite();
        self.threads.make_finite();
        self.pattern.make_finite();
        self.instance_patterns.make_finite();
        self.advice.make_finite();
        self.line_sharing.make_finite();
        if let Some(Detail { pages, points, instances, .. }) = &mut self.detail {
            pages.make_finite();
            instances.make_finite();
            points.iter_mut().for_each(|point| point.t.make_finite());
        }
    }
}

impl Finite for Page {
    fn make_finite(&mut self) {
        self.by_thread.values_mut().for_each(Finite::make_finite);
        self.cost_by_thread.values_mut().for_each(Finite::make_finite);
        self.memory.make_finite();
    }
}
