//! System calls that no command needs and that widen what it can reach.
//!
//! # Invariants
//! 1. A refused call fails with an error the program can handle; it is not killed for trying. Only a program
//!    for another processor, whose calls have other numbers, is killed at its first call.
//! 2. Every way to a new user namespace is closed: `unshare`, `clone`, and `clone3`, whose arguments a filter
//!    cannot read and which therefore "does not exist" (the C libraries then use `clone`).
//! 3. Every way to a socket is filtered: `socket` by an allow list of families, and `io_uring`, which makes
//!    sockets without that call, "does not exist". `socketcall` is a call of 32-bit programs, which are
//!    killed.
//!
//! # Not here
//! What the namespaces and Landlock already keep apart.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

/// `open_tree_attr`, which the C library's list does not have yet; the same number everywhere.
const SYS_OPEN_TREE_ATTR: i64 = 467;

/// The calls that a command may make beyond those that every command may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AllowedCalls {
    /// Sockets of the internet families: there is a network namespace, or the network is on.
    pub(super) internet: bool,
    /// `socket(AF_UNIX)`; `socketpair` is always allowed.
    pub(super) unix_sockets: bool,
    /// Extended attributes and flags of files, which Landlock does not know of.
    pub(super) attributes: bool,
    /// `io_uring`, which makes sockets without the call that is filtered.
    pub(super) io_uring: bool,
    /// System V objects: those of other programs are in another namespace.
    pub(super) system_v: bool,
}

/// Returns the filters, to be installed one after the other.
pub(super) fn filters(allowed: AllowedCalls) -> Result<Vec<BpfProgram>, String> {
    let mut missing = vec![libc::SYS_clone3];
    if !allowed.io_uring {
        missing.extend([libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register]);
    }
    let mut filters = vec![
        filter(refused()?, libc::EPERM)?,
        filter(always(&missing), libc::ENOSYS)?,
        filter(other_families(allowed)?, libc::EAFNOSUPPORT)?,
    ];
    if !allowed.unix_sockets {
        let unix = rule(&[(0, SeccompCmpOp::Eq, libc::AF_UNIX)])?;
        filters.push(filter([(libc::SYS_socket, vec![unix])].into(), libc::EPERM)?);
    }
    if !allowed.attributes {
        filters.push(filter(always(&ATTRIBUTES), libc::EOPNOTSUPP)?);
        let flags = FILE_FLAGS.map(|request| rule(&[(1, SeccompCmpOp::Eq, request)]));
        let flags = flags.into_iter().collect::<Result<_, String>>()?;
        filters.push(filter([(libc::SYS_ioctl, flags)].into(), libc::EPERM)?);
    }
    if !allowed.system_v {
        filters.push(filter(always(&SYSTEM_V), libc::EPERM)?);
    }
    if cfg!(target_arch = "x86_64") {
        filters.push(refuse_x32());
    }
    Ok(filters)
}

/// Installs the filters for this process and all that come from it.
pub(super) fn install(filters: &[BpfProgram]) -> Result<(), String> {
    filters.iter().try_for_each(|filter| seccompiler::apply_filter(filter).map_err(|error| error.to_string()))
}

/// Conditions by system call; without one the call is refused always.
pub(super) type SyscallRules = BTreeMap<i64, Vec<SeccompRule>>;

pub(super) fn filter(rules: SyscallRules, errno: i32) -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let errno = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, errno, arch)
        .and_then(BpfProgram::try_from)
        .map_err(|error| error.to_string())
}

pub(super) fn always(calls: &[i64]) -> SyscallRules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// Calls that need a privilege no command has, that reach into other processes, or that leave what the other
/// filters see.
const REFUSED: [i64; 43] = [
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_kcmp,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_syslog,
];

/// The same, where only this processor has them.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[
    libc::SYS_modify_ldt,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// Calls that change extended attributes; the last two and `file_setattr` are newer than the C library's
/// list.
const ATTRIBUTES: [i64; 9] = [
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    463,
    466,
    469,
];

/// Memory, semaphores and queues that other programs of the user may have.
const SYSTEM_V: [i64; 11] = [
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
];

/// `FS_IOC_SETFLAGS`, `FS_IOC32_SETFLAGS` and `FS_IOC_FSSETXATTR`.
const FILE_FLAGS: [u32; 3] = [0x4008_6602, 0x4004_6602, 0x401c_5820];

/// The execution domains that a program may ask for: the ordinary ones, without randomized addresses
/// (debuggers, sanitizers), and the question which it is.
const PERSONALITIES: [u32; 6] = [0, 0x8, 0x2_0000, 0x2_0008, 0x4_0000, u32::MAX];

fn refused() -> Result<SyscallRules, String> {
    let mut rules = always(&REFUSED);
    rules.extend(always(REFUSED_HERE));
    let new_user = libc::CLONE_NEWUSER.unsigned_abs().into();
    let asks_for_one =
        SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(new_user), new_user)
            .and_then(|condition| SeccompRule::new(vec![condition]))
            .map_err(|error| error.to_string())?;
    for call in [libc::SYS_unshare, libc::SYS_clone] {
        rules.insert(call, vec![asks_for_one.clone()]);
    }
    let others = PERSONALITIES.map(|domain| (0, SeccompCmpOp::Ne, domain));
    rules.insert(libc::SYS_personality, vec![rule(&others)?]);
    // The kernel asks for the same user only: limits of the reaper, or of any process of the user, could be taken away.
    rules.insert(libc::SYS_prlimit64, vec![rule(&[(0, SeccompCmpOp::Ne, 0)])?]);
    Ok(rules)
}

/// Every family of sockets but the known ones: others are no part of a network namespace (vsock), or are
/// seldom used and often broken. Of netlink the addresses and the command's own sockets are left.
fn other_families(allowed: AllowedCalls) -> Result<SyscallRules, String> {
    let mut families = vec![libc::AF_UNIX];
    if allowed.internet {
        families.extend([libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]);
    }
    let others: Vec<_> = families.iter().map(|family| (0, SeccompCmpOp::Ne, *family)).collect();
    let netlink = [
        (0, SeccompCmpOp::Eq, libc::AF_NETLINK),
        (2, SeccompCmpOp::Ne, libc::NETLINK_ROUTE),
        (2, SeccompCmpOp::Ne, libc::NETLINK_SOCK_DIAG),
    ];
    let no_unix = rule(&[(0, SeccompCmpOp::Ne, libc::AF_UNIX)])?;
    Ok([(libc::SYS_socket, vec![rule(&others)?, rule(&netlink)?]), (libc::SYS_socketpair, vec![no_unix])]
        .into())
}

/// A rule that holds when all arguments compare so, as numbers of 32 bits.
fn rule<V: Copy + TryInto<i64>>(compared: &[(u8, SeccompCmpOp, V)]) -> Result<SeccompRule, String> {
    let conditions = compared.iter().map(|(argument, compare, value)| {
        let value = (*value).try_into().map_err(|_| "a number is too large".to_owned())?;
        // The lower 32 bits are compared.
        let value = u64::from_le_bytes(i64::to_le_bytes(value)) & u64::from(u32::MAX);
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, compare.clone(), value)
            .map_err(|error| error.to_string())
    });
    SeccompRule::new(conditions.collect::<Result<_, String>>()?).map_err(|error| error.to_string())
}

/// The x32 calls have numbers of their own, which the other filters would let pass.
pub(super) fn refuse_x32() -> BpfProgram {
    const X32_BIT: u32 = 0x4000_0000;
    let eperm = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    let instruction = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    vec![
        // The number is the first word of what a filter sees.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, X32_BIT),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, eperm),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
