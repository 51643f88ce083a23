//! Small programs are compiled, and what this crate says about them is compared with what they, `nm` and `addr2line`
//! say.

mod support;

mod c_variables;
mod copies;
mod cpp_variables;
mod damage;
mod fortran_variables;
mod frames;
mod functions;
mod mapping;
mod modules;
mod scopes;
mod separate_debug;
mod tls;
mod vdso;
