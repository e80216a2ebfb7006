//! Reports keys that a map of a definition cannot have, with the key that was probably meant.

use domain::did_you_mean;

use crate::keys::KeyDoc;
use crate::reader::{DefinitionReader, MapFields};

impl MapFields<'_> {
    /// Reports every key that is not among the `known` ones.
    pub(crate) fn refuse_unknown_keys(&self, reader: &DefinitionReader<'_>, known: &[&[KeyDoc]]) {
        let names = || known.iter().flat_map(|keys| keys.iter()).map(|key| key.name);
        for (key, _) in self.entries() {
            if !names().any(|name| name == key.name) {
                let meant = did_you_mean(&key.name, names());
                let all = if meant.is_empty() {
                    let mut listed: Vec<&str> = Vec::new();
                    names().for_each(|name| {
                        if !listed.contains(&name) {
                            listed.push(name)
                        }
                    });
                    format!("; there are {}", listed.join(", "))
                } else {
                    meant
                };
                reader.wrong(key.at, format!("{} has no key `{}`{all}", self.what, key.name));
            }
        }
    }
}
