//! The table of the known agent programs.

/// The way in which a program gets its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptBy {
    /// On its standard input, which then ends.
    Stdin,
    /// In the argument that has `{{prompt}}` in it.
    Argument,
}

/// The start of a program that speaks the Agent Client Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acp {
    /// The program, when it is not the agent's own, and its arguments.
    pub argv: &'static [&'static str],
    /// The command that installs it, if it is not the agent's own.
    pub install: Option<&'static str>,
    /// A variable that holds a key, and the way to log in by it, as the agent calls it.
    pub logins: &'static [(&'static str, &'static str)],
}

/// The ways of use that were tested, against a scripted model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestedWays {
    /// The task was done, with this version (over the protocol: of the program that speaks it).
    Worked {
        /// The version.
        version: &'static str,
    },
    /// It was not tested.
    No,
}

/// An agent program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agent {
    /// The name of its actor.
    pub name: &'static str,
    /// The name that people use for it.
    pub title: &'static str,
    /// The program, looked for on the path.
    pub program: &'static str,
    /// Its arguments when it is asked for its version.
    pub version: &'static [&'static str],
    /// Its arguments when it does one task and ends.
    pub headless: &'static [&'static str],
    /// The way in which it gets the task.
    pub prompt: PromptBy,
    /// The start of its Agent Client Protocol, if it speaks it.
    pub acp: Option<Acp>,
    /// Variables that it has to get.
    pub env: &'static [(&'static str, &'static str)],
    /// Variables of the user that it needs or heeds; those of keys first.
    pub pass_env: &'static [&'static str],
    /// The variables among them that hold a key: one of them is enough.
    pub keys: &'static [&'static str],
    /// Files below the home directory that exist once a user has logged in.
    pub logins: &'static [&'static str],
    /// The paths that it writes outside the project. One that does not exist is made in its own home, and
    /// thrown away.
    pub writable: &'static [&'static str],
    /// The files that it leaves in the project, and that are no part of the result.
    pub ignore: &'static [&'static str],
    /// The command that installs it.
    pub install: &'static str,
    /// Says if it was seen to work headless.
    pub tried: TestedWays,
    /// Says if it was seen to work over the Agent Client Protocol.
    pub tried_acp: TestedWays,
}

impl Agent {
    /// The ways that were seen to work, in words.
    pub fn tried_in_words(&self) -> String {
        let by_itself = match self.tried {
            TestedWays::Worked { version } => Some(format!("tried with {version}")),
            TestedWays::No => None,
        };
        let over_acp = match (self.tried_acp, self.acp) {
            (TestedWays::Worked { version }, Some(acp)) => {
                let program = acp.argv.first().copied().unwrap_or(self.program);
                Some(format!("over the Agent Client Protocol with {program} {version}"))
            }
            (TestedWays::Worked { .. } | TestedWays::No, _) => None,
        };
        match (by_itself, over_acp) {
            (None, None) => "untried".to_owned(),
            (Some(one), None) => one,
            (None, Some(one)) => format!("tried {one}"),
            (Some(one), Some(other)) => format!("{one}, and {other}"),
        }
    }

    /// Returns whether it was seen to work, one way or another.
    pub const fn is_tried(&self) -> bool {
        matches!(self.tried, TestedWays::Worked { .. }) || matches!(self.tried_acp, TestedWays::Worked { .. })
    }
}

/// The row of this name.
pub fn named(name: &str) -> Option<&'static Agent> {
    AGENTS.iter().find(|agent| agent.name == name)
}

/// The way in which the program `acp` logs in by a key that it is given; `None` if it is not known, or needs
/// none.
pub fn login_of(acp: &str, given: &dyn Fn(&str) -> bool) -> Option<&'static str> {
    let known = AGENTS.iter().filter_map(|agent| agent.acp).find(|known| known.argv.first() == Some(&acp))?;
    known.logins.iter().find(|(key, _)| given(key)).map(|(_, way)| *way)
}

/// The agents, in the order in which they are looked for.
pub const AGENTS: [Agent; 5] = [
    Agent {
        name: "claude",
        title: "Claude Code",
        program: "claude",
        version: &["--version"],
        headless: &["-p", "--dangerously-skip-permissions"],
        prompt: PromptBy::Stdin,
        acp: Some(Acp {
            argv: &["claude-code-acp"],
            install: Some("npm install -g @zed-industries/claude-code-acp"),
            logins: &[],
        }),
        // As root it refuses to run without questions unless a variable says that it is enclosed.
        env: &[("IS_SANDBOX", "1")],
        pass_env: &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
        ],
        keys: &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
        logins: &[".claude/.credentials.json"],
        writable: &["~/.claude", "~/.claude.json"],
        ignore: &[],
        install: "npm install -g @anthropic-ai/claude-code",
        tried: TestedWays::Worked { version: "2.1.197" },
        tried_acp: TestedWays::Worked { version: "0.16.2" },
    },
    Agent {
        name: "codex",
        title: "Codex",
        program: "codex",
        version: &["--version"],
        headless: &["exec", "--sandbox", "danger-full-access", "--skip-git-repo-check", "-"],
        prompt: PromptBy::Stdin,
        acp: Some(Acp {
            argv: &["codex-acp", "-c", "sandbox_mode=\"danger-full-access\""],
            install: Some("npm install -g @zed-industries/codex-acp"),
            logins: &[("CODEX_API_KEY", "codex-api-key"), ("OPENAI_API_KEY", "openai-api-key")],
        }),
        env: &[],
        pass_env: &["CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_HOME"],
        keys: &["CODEX_API_KEY", "OPENAI_API_KEY"],
        logins: &[".codex/auth.json"],
        writable: &["~/.codex"],
        ignore: &[],
        install: "npm install -g @openai/codex",
        tried: TestedWays::Worked { version: "0.166.0" },
        tried_acp: TestedWays::Worked { version: "0.16.0" },
    },
    Agent {
        name: "gemini",
        title: "Gemini CLI",
        program: "gemini",
        version: &["--version"],
        // Without the second it asks for approvals again in every directory that the user has not trusted.
        headless: &["--yolo", "--skip-trust"],
        prompt: PromptBy::Stdin,
        acp: Some(Acp {
            argv: &["gemini", "--acp", "--skip-trust"],
            install: None,
            logins: &[("GEMINI_API_KEY", "gemini-api-key")],
        }),
        env: &[],
        pass_env: &[
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_CLOUD_PROJECT",
            "GOOGLE_GENAI_USE_VERTEXAI",
            "GOOGLE_GEMINI_BASE_URL",
        ],
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        logins: &[".gemini/oauth_creds.json"],
        writable: &["~/.gemini"],
        ignore: &[],
        install: "npm install -g @google/gemini-cli",
        tried: TestedWays::Worked { version: "0.61.0" },
        tried_acp: TestedWays::Worked { version: "0.61.0" },
    },
    Agent {
        name: "aider",
        title: "aider",
        program: "aider",
        version: &["--version"],
        headless: &[
            "--yes-always",
            "--no-auto-commits",
            "--no-gitignore",
            "--no-check-update",
            "--analytics-disable",
            "--message={{prompt}}",
        ],
        prompt: PromptBy::Argument,
        acp: None,
        env: &[],
        pass_env: &[
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "GEMINI_API_KEY",
            "OPENROUTER_API_KEY",
            "OPENAI_API_BASE",
            "AIDER_MODEL",
        ],
        keys: &["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"],
        logins: &[],
        writable: &["~/.aider"],
        ignore: &[".aider*"],
        install: "pip install aider-chat",
        tried: TestedWays::Worked { version: "0.86.2" },
        tried_acp: TestedWays::No,
    },
    Agent {
        name: "goose",
        title: "goose",
        program: "goose",
        version: &["--version"],
        headless: &["run", "--no-session", "-i", "-"],
        prompt: PromptBy::Stdin,
        acp: Some(Acp { argv: &["goose", "acp"], install: None, logins: &[] }),
        env: &[("GOOSE_MODE", "auto")],
        pass_env: &[
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "GOOGLE_API_KEY",
            "OPENROUTER_API_KEY",
            "GOOSE_PROVIDER",
            "GOOSE_MODEL",
        ],
        keys: &["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "OPENROUTER_API_KEY"],
        logins: &[".config/goose/config.yaml"],
        writable: &["~/.config/goose", "~/.local/share/goose", "~/.local/state/goose"],
        ignore: &[],
        install: "see its site: it has no package on npm or PyPI",
        tried: TestedWays::No,
        tried_acp: TestedWays::No,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_hold_together() {
        for agent in &AGENTS {
            assert_eq!(named(agent.name), Some(agent));
            let has_place = agent.headless.iter().any(|word| word.contains("{{prompt}}"));
            assert_eq!(has_place, agent.prompt == PromptBy::Argument, "{}", agent.name);
            assert!(agent.keys.iter().all(|key| agent.pass_env.contains(key)), "{}", agent.name);
            if let Some(acp) = agent.acp {
                assert_eq!(acp.install.is_none(), acp.argv[0] == agent.program, "{}", agent.name);
                assert!(acp.logins.iter().all(|(key, _)| agent.keys.contains(key)), "{}", agent.name);
            }
        }
        assert!(!named("goose").unwrap().is_tried());
        for agent in &AGENTS {
            assert_eq!(agent.is_tried(), agent.tried_in_words() != "untried", "{}", agent.name);
        }
        let words = named("codex").unwrap().tried_in_words();
        assert_eq!(words, "tried with 0.166.0, and over the Agent Client Protocol with codex-acp 0.16.0");
    }

    #[test]
    fn an_agent_logs_in_by_the_first_key_that_it_is_given() {
        assert_eq!(login_of("codex-acp", &|key| key == "OPENAI_API_KEY"), Some("openai-api-key"));
        assert_eq!(login_of("codex-acp", &|_| true), Some("codex-api-key"));
        assert_eq!(login_of("codex-acp", &|_| false), None);
        assert_eq!(login_of("claude-code-acp", &|_| true), None, "it needs none");
        assert_eq!(login_of("sh", &|_| true), None);
    }
}
