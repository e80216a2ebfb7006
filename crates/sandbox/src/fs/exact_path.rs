//! The exact written form of paths between processes, whether they are UTF-8 or not.
//!
//! For `#[serde(with = "crate::fs::exact_path")]` on a path, a list of paths, or a path that may be absent.
//! Without it serde refuses a path that is no UTF-8.

use std::ffi::OsString;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value made of paths, and its written form.
pub(crate) trait ExactPath: Sized {
    type Written: Serialize + DeserializeOwned;

    fn written(&self) -> Self::Written;
    fn read(written: Self::Written) -> Self;
}

impl ExactPath for PathBuf {
    type Written = OsString;

    fn written(&self) -> OsString {
        self.clone().into_os_string()
    }

    fn read(written: OsString) -> Self {
        written.into()
    }
}

impl ExactPath for Option<PathBuf> {
    type Written = Option<OsString>;

    fn written(&self) -> Option<OsString> {
        self.as_ref().map(ExactPath::written)
    }

    fn read(written: Option<OsString>) -> Self {
        written.map(ExactPath::read)
    }
}

impl ExactPath for Vec<PathBuf> {
    type Written = Vec<OsString>;

    fn written(&self) -> Vec<OsString> {
        self.iter().map(ExactPath::written).collect()
    }

    fn read(written: Vec<OsString>) -> Self {
        written.into_iter().map(ExactPath::read).collect()
    }
}

pub(crate) fn serialize<T: ExactPath, S: Serializer>(paths: &T, serializer: S) -> Result<S::Ok, S::Error> {
    paths.written().serialize(serializer)
}

pub(crate) fn deserialize<'de, T: ExactPath, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::Written::deserialize(deserializer).map(T::read)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Paths {
        #[serde(with = "crate::fs::exact_path")]
        one: PathBuf,
        #[serde(with = "crate::fs::exact_path")]
        perhaps: Option<PathBuf>,
        #[serde(with = "crate::fs::exact_path")]
        all: Vec<PathBuf>,
    }

    #[test]
    fn what_is_written_is_read_back_byte_for_byte() {
        let odd = PathBuf::from(OsString::from_vec(b"/a\xff/b".to_vec()));
        for perhaps in [None, Some(odd.clone())] {
            let paths = Paths { one: odd.clone(), perhaps, all: vec!["/c".into(), odd.clone()] };
            let text = serde_json::to_vec(&paths).unwrap();
            assert_eq!(serde_json::from_slice::<Paths>(&text).unwrap(), paths);
        }
    }
}
