//! The command line of a rank.

use std::path::PathBuf;
use std::str::FromStr;

/// What a rank is told.
pub(crate) struct Arguments {
    /// Keys of the configuration that are set over what the environment says.
    pub(crate) settings: Vec<(String, String)>,
    /// What to play.
    pub(crate) scenario: String,
    values: Vec<(String, String)>,
}

impl Arguments {
    pub(crate) fn read(mut words: impl Iterator<Item = String>) -> Self {
        let pair = |word: String| {
            let (name, value) = word
                .split_once('=')
                .unwrap_or_else(|| panic!("`{word}` is no NAME=VALUE"));
            (name.to_string(), value.to_string())
        };
        let mut settings = Vec::new();
        let scenario = loop {
            match words.next().expect("a scenario").as_str() {
                "--set" => settings.push(pair(words.next().expect("KEY=VALUE after --set"))),
                scenario => break scenario.to_string(),
            }
        };
        Arguments {
            settings,
            scenario,
            values: words.map(pair).collect(),
        }
    }

    fn find(&self, name: &str) -> Option<&str> {
        self.values
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }

    /// A value that the scenario needs.
    pub(crate) fn get<T: FromStr>(&self, name: &str) -> T {
        let text = self
            .find(name)
            .unwrap_or_else(|| panic!("{} needs {name}=…", self.scenario));
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} cannot be read"))
    }

    /// A path, where one is given.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.find(name).map(PathBuf::from)
    }
}
