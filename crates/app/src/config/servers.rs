//! `[mcp.NAME]`: programs whose tools models may call.
//!
//! # Invariants
//! 1. A project's file has none: a clone names no program that gets the user's variables.
//! 2. A name has no dot: a tool is called `NAME.TOOL`.

use engine::{McpSettings, ServerSettings};
use toml_edit::{Item, TableLike};

use super::error::ConfigError;
use super::file::SettingLocation;
use super::models::{NamedTable, TableField, TableSource};

/// The table of servers.
pub(super) const MCP: &str = "mcp";

/// The default time limits of a server's start, and of a call.
const START_S: u32 = 30;
const CALL_S: u32 = 60;

impl TableSource<'_> {
    /// The servers of a file.
    pub(super) fn servers(&self, item: &Item) -> Result<Vec<NamedTable<ServerSettings>>, ConfigError> {
        let tables = self.tables(MCP, item)?;
        let read = |(name, table, at): (String, &dyn TableLike, SettingLocation)| {
            if !::definitions::is_name(&name) {
                return Err(ConfigError::ValueInvalid {
                    key: MCP.to_owned(),
                    value: name,
                    allowed: "a name of small letters, digits, - and _".to_owned(),
                    place: Some(at),
                });
            }
            Ok((name.clone(), self.server(&name, table, &at)?, at))
        };
        tables.into_iter().map(read).collect()
    }

    fn server(
        &self,
        name: &str,
        table: &dyn TableLike,
        whole: &SettingLocation,
    ) -> Result<ServerSettings, ConfigError> {
        let mut found = McpSettings {
            command: Vec::new(),
            env: Default::default(),
            pass_env: Vec::new(),
            network: false,
            read_only: Vec::new(),
            start_s: START_S,
            call_s: CALL_S,
        };
        let mut writes = true;
        for (key, item) in table.iter() {
            let (full, at) = (format!("{MCP}.{name}.{key}"), self.key_at(table, key, item));
            let field = TableField { name: full, item, at };
            match key {
                "command" => found.command = field.words("a list of words: the program and its arguments")?,
                "env" => found.env = field.variables()?,
                "pass_env" => found.pass_env = field.words("a list of names of variables")?,
                "network" => found.network = field.yes_or_no()?,
                "writes" => writes = field.yes_or_no()?,
                "read_only" => found.read_only = field.words("a list of names of its tools")?,
                "start" => found.start_s = field.limit()?,
                "timeout" => found.call_s = field.limit()?,
                _ => return Err(ConfigError::KeyUnknown { key: field.name, place: Some(field.at) }),
            }
        }
        if found.command.first().is_none_or(String::is_empty) {
            return Err(ConfigError::ValueInvalid {
                key: format!("{MCP}.{name}"),
                value: String::new(),
                allowed: "at least `command`, the program and its arguments".to_owned(),
                place: Some(whole.clone()),
            });
        }
        Ok(ServerSettings { program: found, writes })
    }
}

impl TableField<'_> {
    fn words(&self, allowed: &str) -> Result<Vec<String>, ConfigError> {
        let list = self.item.as_array().ok_or_else(|| self.refused(allowed))?;
        let word = |value: &toml_edit::Value| value.as_str().map(str::to_owned);
        list.iter().map(|value| word(value).ok_or_else(|| self.refused(allowed))).collect()
    }

    fn variables(&self) -> Result<std::collections::BTreeMap<String, String>, ConfigError> {
        // A value may be a secret: it is not shown.
        let refused = || ConfigError::ValueInvalid {
            key: self.name.clone(),
            value: "…".to_owned(),
            allowed: "a table of texts: { NAME = \"value\" }".to_owned(),
            place: Some(self.at.clone()),
        };
        let table = self.item.as_table_like().ok_or_else(refused)?;
        let pair = |(name, item): (&str, &Item)| Some((name.to_owned(), item.as_str()?.to_owned()));
        table.iter().map(|entry| pair(entry).ok_or_else(refused)).collect()
    }

    fn limit(&self) -> Result<u32, ConfigError> {
        let seconds = u32::try_from(self.seconds()?).ok().filter(|seconds| *seconds <= 3600);
        seconds.ok_or_else(|| self.refused("a time from 1s to 1h, like 30s"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::file::ConfigFile;
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile, String> {
        ConfigFile::parse(Path::new("config.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_server_is_read_with_all_that_its_table_says() {
        let file = parse(
            "[mcp.files]\ncommand = [\"serve\", \".\"]\nenv = { LANG = \"C\" }\npass_env = [\"TOKEN\"]\nnetwork = true\n\
             writes = false\nread_only = [\"look\"]\nstart = \"5s\"\ntimeout = \"2m\"\n[mcp.plain]\ncommand = [\"x\"]\n",
        )
        .unwrap();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<String>>();
        let files = McpSettings {
            command: words(&["serve", "."]),
            env: [("LANG".to_owned(), "C".to_owned())].into(),
            pass_env: words(&["TOKEN"]),
            network: true,
            read_only: words(&["look"]),
            start_s: 5,
            call_s: 120,
        };
        let plain = McpSettings {
            command: words(&["x"]),
            env: Default::default(),
            pass_env: Vec::new(),
            network: false,
            read_only: Vec::new(),
            start_s: 30,
            call_s: 60,
        };
        let line = |line| SettingLocation::Line { file: "config.toml".into(), line };
        let files = ("files".to_owned(), ServerSettings { program: files, writes: false }, line(1));
        let plain = ("plain".to_owned(), ServerSettings { program: plain, writes: true }, line(10));
        assert_eq!(file.servers, [files, plain]);
    }

    #[test]
    fn every_mistake_names_its_line_and_no_value_of_a_variable_is_shown() {
        for (text, says) in [
            ("mcp = 1\n", "there is no setting `mcp` (config.toml:1)"),
            ("[mcp.a]\n", "`mcp.a` cannot be `` (config.toml:1): it takes at least `command`"),
            ("[mcp.a]\ncommand = \"x y\"\n", "`mcp.a.command` cannot be `\"x y\"` (config.toml:2)"),
            ("[mcp.a]\ncommand = [1]\n", "`mcp.a.command` cannot be `[1]` (config.toml:2)"),
            ("[mcp.a]\ncomand = [\"x\"]\n", "there is no setting `mcp.a.comand` (config.toml:2)"),
            (
                "[mcp.a]\ncommand = [\"x\"]\ntimeout = \"2h\"\n",
                "`mcp.a.timeout` cannot be `\"2h\"` (config.toml:3)",
            ),
            ("[mcp.\"a.b\"]\ncommand = [\"x\"]\n", "`mcp` cannot be `a.b` (config.toml:1)"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.starts_with(says), "{text:?}: {said}");
        }
        let said = parse("[mcp.a]\nenv = { TOKEN = 1234567 }\n").unwrap_err();
        assert!(said.starts_with("`mcp.a.env` cannot be `…`") && !said.contains("1234567"), "{said}");
    }
}
