//! CPU time of this process and of the children that it waited for.

use std::time::Duration;

/// So far.
pub(crate) fn spent() -> Duration {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].into_iter().map(usage).sum()
}

fn usage(who: libc::c_int) -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills in the struct, of which all zeroes are a value too.
    let usage = unsafe {
        assert_eq!(libc::getrusage(who, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    let time = |part: libc::timeval| Duration::new(part.tv_sec as u64, part.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
