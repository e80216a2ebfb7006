//! System calls that no command needs and that widen what it can reach.
//!
//! # Invariants
//! 1. A refused call fails with an error the program can handle; it is not killed for trying. Only a program for another
//!    processor, whose calls have other numbers, is killed at its first call.
//! 2. Every way to a new user namespace is closed: `unshare`, `clone`, and `clone3`, whose arguments a filter cannot
//!    read and which therefore "does not exist" (the C libraries then use `clone`).
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

/// Which sockets a command may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sockets {
    /// All.
    Any,
    /// All but those that a network namespace does not hold back.
    NoVsock,
    /// Only local ones: there is no network namespace.
    UnixOnly,
}

/// The filters, to be installed one after the other.
pub(super) fn filters(sockets: Sockets) -> Result<Vec<BpfProgram>, String> {
    let mut filters =
        vec![filter(refused(), libc::EPERM)?, filter(always(&[libc::SYS_clone3]), libc::ENOSYS)?];
    match sockets {
        Sockets::Any => {}
        Sockets::NoVsock => {
            filters.push(filter(socket_rule(SeccompCmpOp::Eq, libc::AF_VSOCK)?, libc::EAFNOSUPPORT)?);
        }
        Sockets::UnixOnly => {
            filters.push(filter(socket_rule(SeccompCmpOp::Ne, libc::AF_UNIX)?, libc::EAFNOSUPPORT)?);
            // It makes sockets without the call that is filtered.
            filters.push(filter(always(&[libc::SYS_io_uring_setup]), libc::ENOSYS)?);
        }
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

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn filter(rules: Rules, errno: i32) -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let errno = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, errno, arch)
        .and_then(BpfProgram::try_from)
        .map_err(|error| error.to_string())
}

fn always(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

fn refused() -> Rules {
    let mut rules = always(&[
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
    ]);
    let new_user = libc::CLONE_NEWUSER.unsigned_abs().into();
    let asks_for_one =
        SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(new_user), new_user)
            .and_then(|condition| SeccompRule::new(vec![condition]));
    for call in [libc::SYS_unshare, libc::SYS_clone] {
        // A condition that could not be made would leave the call open; then it is refused altogether.
        rules.insert(call, asks_for_one.iter().cloned().collect());
    }
    rules
}

fn socket_rule(compare: SeccompCmpOp, family: i32) -> Result<Rules, String> {
    let rule = SeccompCondition::new(0, SeccompCmpArgLen::Dword, compare, family.unsigned_abs().into())
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| error.to_string())?;
    Ok([(libc::SYS_socket, vec![rule])].into())
}

/// The x32 calls have numbers of their own, which the other filters would let pass.
fn refuse_x32() -> BpfProgram {
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
