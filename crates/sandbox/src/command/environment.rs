//! The environment that commands see, and nothing else.
//!
//! # Invariants
//! 1. A variable gets in as `PATH`, `HOME` or `LANG`, by the prefix `LC_`, or because the caller asked for
//!    it. So no key of a provider and no path to an agent's socket gets in by accident.
//! 2. A later source wins: inherited, passed on, given, and last ours: the mark by which a job's processes
//!    are found cannot be taken off. `TMPDIR` is not settled here: the code that starts the command knows
//!    where its private one is.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The job that a process is of.
pub(crate) const JOB: &str = "AGENTS_JOB";
/// The owner that started it, by the job's fence.
pub(crate) const FENCE: &str = "AGENTS_FENCE";
/// The variables that are inherited from our own environment.
const INHERITED: [&str; 3] = ["PATH", "HOME", "LANG"];
/// The search path of a command when we have none ourselves.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The variables that a command gets beyond those that every command sees.
#[derive(Clone, Debug, Default)]
pub struct EnvSpec {
    /// `AGENTS_PLAN`.
    pub plan: OsString,
    /// `AGENTS_JOB`: by it the processes of a job are found again.
    pub job: OsString,
    /// `AGENTS_FENCE`: the number of this owner of the job, so that a later owner can recognise the processes
    /// of an earlier one.
    pub fence: u64,
    /// `AGENTS_OUTPUT`: the file that the command may write its result to.
    pub output: Option<PathBuf>,
    /// Names of ours to pass on.
    pub pass_env: Vec<OsString>,
    /// Variables with their values.
    pub env: Vec<(OsString, OsString)>,
}

/// The whole environment of a command, in the order of the names.
///
/// ```
/// use sandbox::command::{EnvSpec, environment};
///
/// let ours = [("PATH", "/bin"), ("OPENAI_API_KEY", "sk-secret")].map(|(k, v)| (k.into(), v.into()));
/// let given = EnvSpec { plan: "01JB".into(), job: "01JC".into(), fence: 1, ..EnvSpec::default() };
/// let seen = environment(ours, &given);
/// assert_eq!(
///     seen,
///     [
///         ("AGENTS_FENCE", "1"),
///         ("AGENTS_JOB", "01JC"),
///         ("AGENTS_PLAN", "01JB"),
///         ("PATH", "/bin"),
///         ("TERM", "dumb")
///     ]
///     .map(|(k, v)| (k.into(), v.into()))
/// );
/// ```
pub fn environment(
    inherited: impl IntoIterator<Item = (OsString, OsString)>,
    given: &EnvSpec,
) -> Vec<(OsString, OsString)> {
    let mut seen = BTreeMap::from([(OsString::from("PATH"), OsString::from(PATH_DEFAULT))]);
    seen.extend(
        inherited.into_iter().filter(|(name, _)| is_inherited(name) || given.pass_env.contains(name)),
    );
    seen.insert("TERM".into(), "dumb".into());
    seen.extend(given.env.iter().cloned());
    seen.insert("AGENTS_PLAN".into(), given.plan.clone());
    seen.insert(JOB.into(), given.job.clone());
    seen.insert(FENCE.into(), given.fence.to_string().into());
    if let Some(output) = &given.output {
        seen.insert("AGENTS_OUTPUT".into(), output.clone().into_os_string());
    }
    seen.remove(std::ffi::OsStr::new("TMPDIR"));
    seen.into_iter().collect()
}

/// Those of a command's variables by which its processes are found.
pub(crate) fn marks(env: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    env.iter().filter(|(name, _)| name == JOB || name == FENCE).cloned().collect()
}

fn is_inherited(name: &OsString) -> bool {
    INHERITED.iter().any(|inherited| name == inherited) || name.as_bytes().starts_with(b"LC_")
}
