//! Hears every statement that a connection of this process runs, as SQLite itself tells it.
//!
//! # Invariants
//! Only connections that are opened while somebody listens are heard; those of measured runs are not.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::Mutex;

use rusqlite::ffi;

/// A statement: its text, and its text with the values in it.
pub(crate) struct Said {
    pub(crate) text: String,
    pub(crate) with_values: String,
}

static HEARD: Mutex<Vec<Said>> = Mutex::new(Vec::new());

/// While it lives, new connections are heard.
pub(crate) struct Listening(());

impl Listening {
    pub(crate) fn start() -> Listening {
        // SAFETY: the function lives as long as the program, and has the type that SQLite asks for.
        let done = unsafe { ffi::sqlite3_auto_extension(Some(opened)) };
        assert_eq!(done, ffi::SQLITE_OK);
        Listening(())
    }

    /// Nothing was said so far.
    pub(crate) fn forget(&self) {
        HEARD.lock().unwrap().clear();
    }

    /// The number of statements that were traced so far.
    pub(crate) fn heard(&self) -> usize {
        HEARD.lock().unwrap().len()
    }

    /// All that was heard.
    pub(crate) fn end(self) -> Vec<Said> {
        // SAFETY: as above; a function that is not registered is fine too.
        unsafe { ffi::sqlite3_cancel_auto_extension(Some(opened)) };
        std::mem::take(&mut HEARD.lock().unwrap())
    }
}

unsafe extern "C" fn opened(
    connection: *mut ffi::sqlite3,
    _: *mut *mut c_char,
    _: *const ffi::sqlite3_api_routines,
) -> c_int {
    let events = ffi::SQLITE_TRACE_STMT as c_uint;
    // SAFETY: SQLite has just opened the connection; the callback needs no context.
    unsafe { ffi::sqlite3_trace_v2(connection, events, Some(said), ptr::null_mut()) }
}

unsafe extern "C" fn said(_: c_uint, _: *mut c_void, statement: *mut c_void, _: *mut c_void) -> c_int {
    let statement = statement.cast::<ffi::sqlite3_stmt>();
    // SAFETY: for this event SQLite passes the statement that begins to run. Its text lives as long as the statement;
    // the text with values is ours, and is given back.
    unsafe {
        let text = owned(ffi::sqlite3_sql(statement));
        let expanded = ffi::sqlite3_expanded_sql(statement);
        let with_values = owned(expanded);
        ffi::sqlite3_free(expanded.cast());
        HEARD.lock().unwrap().push(Said { text, with_values });
    }
    0
}

/// # Safety
/// It is a text of SQLite's.
unsafe fn owned(text: *const c_char) -> String {
    assert!(!text.is_null());
    // SAFETY: SQLite's texts end in a zero byte.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
